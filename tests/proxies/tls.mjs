// An authority and a certificate for *.example.org, made with the program openssl.

import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";

// Returns the paths of the authority's certificate, of the server's certificate and of its key.
export function makeCertificates(folder) {
  const path = (name) => join(folder, name);
  const openssl = (...words) => execFileSync("openssl", words, { stdio: ["ignore", "ignore", "pipe"], cwd: folder });
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  openssl("req", "-x509", ...key, "-keyout", "authority-key.pem", "-out", "authority.pem", "-days", "2", "-subj", "/CN=authority");
  openssl("req", ...key, "-keyout", "private-key.pem", "-out", "request.pem", "-subj", "/CN=example.org");
  writeFileSync(path("names"), "subjectAltName=DNS:*.example.org\nbasicConstraints=CA:FALSE\n");
  openssl("x509", "-req", "-in", "request.pem", "-CA", "authority.pem", "-CAkey", "authority-key.pem", "-days", "1",
    "-extfile", "names", "-out", "certificate.pem");
  return { authority: path("authority.pem"), certificate: path("certificate.pem"), privateKey: path("private-key.pem") };
}
