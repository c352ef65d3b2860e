// Compiles the contracts of this folder into contracts.json, which is committed, so that tests need
// no compiler. With --check it compares instead: the committed file must be what the sources give.
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import solc from "solc";

const folder = dirname(fileURLToPath(import.meta.url));
const output = join(folder, "contracts.json");

const names = readdirSync(join(folder, "contracts")).filter((name) => name.endsWith(".sol")).sort();
const sources = Object.fromEntries(
  names.map((name) => [name, { content: readFileSync(join(folder, "contracts", name), "utf8") }]),
);
const input = {
  language: "Solidity",
  sources,
  settings: {
    evmVersion: "shanghai",
    optimizer: { enabled: true, runs: 200 },
    // Without metadata the bytecode depends on nothing but the code and the compiler.
    metadata: { appendCBOR: false, bytecodeHash: "none" },
    outputSelection: { "*": { "*": ["abi", "evm.bytecode.object", "evm.methodIdentifiers"] } },
  },
};
const compiled = JSON.parse(solc.compile(JSON.stringify(input)));
for (const error of compiled.errors ?? []) console.error(error.formattedMessage);
if (compiled.errors?.length) process.exit(1);

// The type of a parameter in a signature: a struct is the list of its fields.
const typeOf = (parameter) =>
  parameter.type.startsWith("tuple")
    ? parameter.type.replace("tuple", `(${parameter.components.map(typeOf).join(",")})`)
    : parameter.type;
const signatures = (abi, type) =>
  abi
    .filter((item) => item.type === type)
    .map((item) => `${item.name}(${item.inputs.map(typeOf).join(",")})`)
    .sort();

const contracts = {};
for (const name of names) {
  for (const [contract, { abi, evm }] of Object.entries(compiled.contracts[name])) {
    contracts[contract] = {
      functions: evm.methodIdentifiers,
      events: signatures(abi, "event"),
      errors: signatures(abi, "error"),
      bytecode: `0x${evm.bytecode.object}`,
    };
  }
}
const text = `${JSON.stringify(contracts, null, 2)}\n`;
if (process.argv.includes("--check")) {
  if (readFileSync(output, "utf8") !== text) {
    console.error("tests/chain/contracts.json is not what the sources give; run: node tests/chain/build.mjs");
    process.exit(1);
  }
} else {
  writeFileSync(output, text);
}
