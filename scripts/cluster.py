#!/usr/bin/env python3
"""Starts a cluster on this machine, for development: three members of etcd, three replicas of the
daemon, and a proxy in front that gives each connection to the next replica. Prints where everything
is. Ctrl-C ends all of it.

    scripts/cluster.py [FOLDER]

FOLDER holds the data (./selfsame-cluster by default); a second start continues with it. The variable
SELFSAME names the program, ETCD that of etcd.
"""

import asyncio
import contextlib
import os
import pathlib
import secrets
import shutil
import signal
import sys

HOST = "127.0.0.1"
NAMES = ["one", "two", "three"]
# Interface: its key in [listen], its port at the proxy, its key in [urls].
INTERFACES = {
    "sign-in": ("sign_in", 8080, "id_url"),
    "verification": ("verify", 8081, "portal_url"),
    "gateway": ("gateway", 8082, "gateway_url"),
    "indexer": ("indexer", 8083, "indexer_url"),
    "bridge": ("bridge", 8085, "bridge_url"),
    "wallet": ("wallet", 8086, "wallet_url"),
}
OPERATOR = 8084
CLUSTER = 8087
ETCD_CLIENTS = 12379
ETCD_PEERS = 12380


def port_of(replica, port):
    """The port of a replica for an interface whose port at the proxy is `port`."""
    return port + 100 * (replica + 1)


def etcd_command(program, folder, index):
    def client(member):
        return f"http://{HOST}:{ETCD_CLIENTS + 10 * member}"

    def peer(member):
        return f"http://{HOST}:{ETCD_PEERS + 10 * member}"

    members = ",".join(f"etcd-{name}={peer(member)}" for member, name in enumerate(NAMES))
    return [
        program, "--name", f"etcd-{NAMES[index]}", "--data-dir", str(folder / f"etcd-{NAMES[index]}"),
        "--listen-client-urls", client(index), "--advertise-client-urls", client(index),
        "--listen-peer-urls", peer(index), "--initial-advertise-peer-urls", peer(index),
        "--initial-cluster", members, "--initial-cluster-token", "selfsame-development", "--snapshot-count", "10000",
        "--pre-vote=true",
    ]  # fmt: skip


def configuration(folder, index):
    listen = "\n".join(
        f'{key} = "{HOST}:{port_of(index, port)}"' for key, port, _ in INTERFACES.values()
    )
    urls = "\n".join(f'{url} = "http://{HOST}:{port}"' for _, port, url in INTERFACES.values())
    members = ", ".join(f'"http://{HOST}:{ETCD_CLIENTS + 10 * member}"' for member in range(len(NAMES)))
    return f"""\
data_dir = "{folder / NAMES[index]}"

[listen]
{listen}
operator = "{HOST}:{port_of(index, OPERATOR)}"

[urls]
{urls}

[cluster]
name = "{NAMES[index]}"
etcd = [{members}]
listen = "{HOST}:{port_of(index, CLUSTER)}"
secret_file = "{folder / "cluster.secret"}"
"""


async def run(name, command, folder):
    """Runs a program, whose output goes to a file, until it ends."""
    with open(folder / f"{name}.log", "ab") as log:
        process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log, start_new_session=True)
    try:
        code = await process.wait()
    except asyncio.CancelledError:
        process.terminate()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(process.wait(), 15)
        if process.returncode is None:
            process.kill()
        raise
    print(f"{name} ended with status {code}; see {folder / f'{name}.log'}", flush=True)


async def copy(reader, writer):
    try:
        while piece := await reader.read(1 << 16):
            writer.write(piece)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        writer.close()


class Proxy:
    """Gives each connection to the next replica that accepts it."""

    def __init__(self, port):
        self.port = port
        self.next = 0

    async def serve(self):
        server = await asyncio.start_server(self.connect, HOST, self.port)
        async with server:
            await server.serve_forever()

    async def connect(self, reader, writer):
        for _ in NAMES:
            replica = self.next % len(NAMES)
            self.next += 1
            with contextlib.suppress(OSError):
                upstream = await asyncio.open_connection(HOST, port_of(replica, self.port))
                await asyncio.gather(copy(reader, upstream[1]), copy(upstream[0], writer))
                upstream[1].close()
                break
        writer.close()


async def wait_for(port):
    while True:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection(HOST, port)
            writer.close()
            return
        await asyncio.sleep(0.1)


def print_table(folder):
    print("Development mode: every key and secret is public.")
    for interface, (_, port, _) in INTERFACES.items():
        print(f"  {interface:<14}http://{HOST}:{port}")
    for index, name in enumerate(NAMES):
        operator, interfaces = port_of(index, OPERATOR), port_of(index, 8080)
        print(f"  replica {name:<6}operator http://{HOST}:{operator}, interfaces from port {interfaces} on, data {folder / name}")
    etcd = ", ".join(f"http://{HOST}:{ETCD_CLIENTS + 10 * member}" for member in range(len(NAMES)))
    print(f"  etcd          {etcd}")
    print(f"Who leads:      selfsame cluster status --data {folder / NAMES[0]}", flush=True)


async def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "selfsame-cluster").absolute()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    program = os.environ.get("SELFSAME", "selfsame")
    etcd = os.environ.get("ETCD", "etcd")
    for needed in (program, etcd):
        if shutil.which(needed) is None:
            sys.exit(f"{needed} is not installed")
    secret = folder / "cluster.secret"
    if not secret.exists():
        secret.touch(mode=0o600)
        secret.write_text(secrets.token_hex(32) + "\n")
    running = [
        asyncio.ensure_future(run(f"etcd-{name}", etcd_command(etcd, folder, index), folder))
        for index, name in enumerate(NAMES)
    ]
    for index, name in enumerate(NAMES):
        file = folder / f"{name}.toml"
        file.write_text(configuration(folder, index))
        command = [program, "serve", "--dev", "--config", str(file)]
        running.append(asyncio.ensure_future(run(name, command, folder)))
    running += [asyncio.ensure_future(Proxy(port).serve()) for _, port, _ in INTERFACES.values()]
    stop = asyncio.Event()
    for ending in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(ending, stop.set)
    ready = asyncio.gather(*(wait_for(port_of(index, OPERATOR)) for index in range(len(NAMES))))
    ready.add_done_callback(lambda done: None if done.cancelled() else print_table(folder))
    await stop.wait()
    # The replicas give the leadership up while etcd still answers.
    for tasks in (running[3:], running[:3]):
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


asyncio.run(main())
