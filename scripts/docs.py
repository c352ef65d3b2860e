#!/usr/bin/env python3
"""The parts of scripts/docs.sh that are more than commands.

docs.py assemble FOLDER               makes the folder that mdBook builds from
docs.py descriptions FOLDER PROGRAM   writes the OpenAPI descriptions and a page for each
docs.py check SITE                    checks the links inside of the site
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
# A link of Markdown that leads to a file.
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?\)")
# A picture that a page has as HTML.
PICTURE = re.compile(r'<(?:img|source) [^>]*?(?:src|srcset)="([^":]+)"')

# The interfaces by the name that --dev prints, with the variable of their address.
INTERFACES = {
    "sign-in": "SIGN_IN",
    "verification": "VERIFY",
    "gateway": "GATEWAY",
    "indexer": "INDEXER",
    "bridge": "BRIDGE",
    "wallet": "WALLET",
    "operator": "OPERATOR",
}


def assemble(folder):
    """Copies the pages with their folders, so that the links between them stay as they are.

    mdBook takes pages of one folder only, and some are outside of docs/. A file that is no page is
    copied when a page links it; a folder gets a list of its files.
    """
    source = folder / "source"
    source.mkdir(parents=True)
    shutil.copy(DOCS / "book.toml", folder)
    summary = (DOCS / "SUMMARY.md").read_text()
    pages = {(DOCS / path).resolve() for path, _ in LINK.findall(summary)}
    missing = [page for page in DOCS.rglob("*.md") if page not in pages and page.name != "SUMMARY.md"]
    missing = [page for page in missing if "node_modules" not in page.parts]
    if missing:
        sys.exit(f"docs/SUMMARY.md lacks {', '.join(str(page.relative_to(ROOT)) for page in missing)}")
    for page in sorted(pages):
        text = page.read_text()
        if page == DOCS / "interfaces" / "README.md":
            text += "\n" + links_to_viewer()
        for path, _ in LINK.findall(text):
            target = (page.parent / path).resolve()
            if target not in pages and not path.startswith("../../openapi/"):
                copy_linked(target, source)
        for path in PICTURE.findall(text):
            copy_linked((page.parent / path).resolve(), source)
        write(source / page.relative_to(ROOT), as_index(text, page, pages))
    write(source / "SUMMARY.md", LINK.sub(lambda link: f"]({from_root(link[1])})", summary))


def as_index(text, page, pages):
    """mdBook builds README.md as index.html and SUMMARY.md as the side bar, and a folder's link leads to its list."""

    def replace(link):
        path, heading = link[1], link[2] or ""
        target = (page.parent / path).resolve()
        if target in pages and target.name == "README.md":
            path = path[: -len("README.md")] + "index.md"
        elif target == DOCS / "SUMMARY.md":
            # The list of pages is the site's side bar; only README.md links it.
            path = "index.md"
        elif target.is_dir():
            path = path.rstrip("/") + "/index.html"
        return f"]({path}{heading})"

    return LINK.sub(replace, text)


def from_root(path):
    return (DOCS / path).resolve().relative_to(ROOT)


def copy_linked(target, source):
    if not target.is_relative_to(ROOT) or not target.exists():
        sys.exit(f"a page links {target}, which does not exist")
    copy = source / target.relative_to(ROOT)
    copy.parent.mkdir(parents=True, exist_ok=True)
    if target.is_file():
        shutil.copy(target, copy)
        return
    shutil.copytree(target, copy, dirs_exist_ok=True)
    files = sorted(path.relative_to(copy) for path in copy.rglob("*") if path.is_file())
    name = target.relative_to(ROOT)
    items = "".join(f'<li><a href="{file}">{file}</a></li>\n' for file in files)
    head = f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{name}</title>\n<h1>{name}</h1>\n'
    write(copy / "index.html", f"{head}<ul>\n{items}</ul>\n</html>\n")


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def links_to_viewer():
    rows = "".join(f"- [{name}](../../openapi/{name}.html), [as JSON](../../openapi/{name}.json)\n" for name in INTERFACES)
    return f"## Read them here\n\nThe descriptions of this version:\n\n{rows}"


def descriptions(folder, program):
    """Asks the daemon's program for the description of each interface."""
    folder.mkdir(parents=True)
    viewer = (DOCS / "site" / "viewer.html").read_text()
    with tempfile.TemporaryDirectory(prefix="selfsame-") as data:
        # Each interface has an address of its own, so each has a document of its own.
        names = enumerate(INTERFACES.values(), start=1)
        addresses = {f"SELFSAME_LISTEN__{name}": f"127.0.0.{host}:0" for host, name in names}
        command = [program, "serve", "--dev", "--data", f"{data}/data"]
        daemon = subprocess.Popen(
            command, env={**os.environ, **addresses}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            urls = {}
            # The table that --dev prints contains the addresses; an empty line ends it.
            for line in daemon.stdout:
                words = line.split()
                if not words:
                    break
                if len(words) == 2 and words[0] in INTERFACES:
                    urls[words[0]] = words[1]
            if urls.keys() != INTERFACES.keys():
                sys.exit(f"{program} printed the addresses of {', '.join(urls) or 'no interface'} alone")
            for name, url in urls.items():
                with urllib.request.urlopen(f"{url}/openapi.json", timeout=60) as answer:
                    description = json.load(answer)
                write(folder / f"{name}.json", json.dumps(description, indent=1, ensure_ascii=False) + "\n")
                write(folder / f"{name}.html", viewer.replace("INTERFACE", name))
        finally:
            daemon.kill()
            daemon.wait()
            daemon.stdout.close()


class Page(HTMLParser):
    """What a page links, what it loads, and the names of its parts."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loaded, self.names = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.names.update(value for name in ("id", "name") if (value := values.get(name)))
        loads = tag in ("img", "script", "iframe", "source") or (tag == "link" and values.get("rel") != "canonical")
        for name in ("href", "src", "srcset"):
            if value := values.get(name):
                (self.loaded if loads else self.links).append(value)


def check(site):
    # The files of the applications are there to be read; they are no pages of the site.
    files = [path for path in site.rglob("*.html") if path.parent.parent != site / "docs" / "applications"]
    pages = {path: Page(path.read_text()) for path in files}
    broken, links = [], 0
    for path, page in sorted(pages.items()):
        # The page for missing pages is served at any address; its links begin at the root.
        folder = site if path.name == "404.html" else path.parent
        for link in page.links + page.loaded:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loaded and parts.scheme != "data":
                    broken.append(f"{path.relative_to(site)} loads {link}")
                continue
            links += 1
            base = site if parts.path.startswith("/") else folder
            target = (base / unquote(parts.path).lstrip("/")).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.is_file():
                broken.append(f"{path.relative_to(site)} links {link}, which does not exist")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].names:
                broken.append(f"{path.relative_to(site)} links {link}, and the page has no such part")
    if broken or links < 400:
        sys.exit("\n".join([*broken, f"{len(broken)} of {links} links are broken"]))
    print(f"{len(pages)} pages, {links} links inside of the site, none broken")


match sys.argv[1:]:
    case ["assemble", folder]:
        assemble(Path(folder).resolve())
    case ["descriptions", folder, program]:
        descriptions(Path(folder).resolve(), program)
    case ["check", site]:
        check(Path(site).resolve())
    case _:
        sys.exit(__doc__)
