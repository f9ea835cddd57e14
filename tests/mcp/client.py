"""Every tool of `oomph mcp`, called by the protocol's own Python client (pip install mcp), over recordings of a GPU and over the demo.

    python3 -m venv /tmp/mcp && /tmp/mcp/bin/pip install mcp jsonschema
    /tmp/mcp/bin/python tests/mcp/client.py --oomph target/debug/oomph

Each answer is validated against the schema that the server itself publishes. The last part plays an agent on the demo: it reads why a
session ran out, predicts, starts once, and waits for the end. With --calls N as many calls are made in a row, and the server's memory is
compared. Exit status 0 only if all of it holds.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import jsonschema
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
RECORDINGS = sorted((REPOSITORY / "tests/replay").glob("*.jsonl"))
DEMO = REPOSITORY / "demo/train.py"


def environment(home):
    """Directories of its own, and a demo that takes no time."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTORCH_")}
    return {
        **kept,
        "XDG_STATE_HOME": home,
        "XDG_CONFIG_HOME": home + "/config",
        "OOMPH_RUNTIME_DIR": home + "/run",
        "OOMPH_SIMULATED_SPEED": "8",
    }


class Agent:
    """A client that holds each answer to its schema."""

    def __init__(self, session, schemas):
        self.session, self.schemas, self.called = session, schemas, 0

    async def call(self, tool, **arguments):
        result = await self.session.call_tool(tool, arguments)
        self.called += 1
        # Two versions of the client name the fields differently.
        failed = getattr(result, "isError", None) or getattr(result, "is_error", None)
        if failed:
            raise AssertionError(f"{tool} {arguments}: {result.content[0].text}")
        answer = getattr(result, "structuredContent", None) or getattr(result, "structured_content", None)
        jsonschema.validate(answer, self.schemas[tool])
        assert json.loads(result.content[0].text) == answer, tool
        return answer

    async def refused(self, tool, **arguments):
        try:
            await self.call(tool, **arguments)
        except AssertionError as error:
            return str(error)
        raise SystemExit(f"{tool} {arguments} was not refused")


async def serve(oomph, home, options, play):
    server = StdioServerParameters(command=oomph, args=["mcp", *options], env=environment(home), cwd=home)
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        tools = (await session.list_tools()).tools
        schemas = {}
        for tool in tools:
            schemas[tool.name] = getattr(tool, "outputSchema", None) or getattr(tool, "output_schema", None)
        return await play(Agent(session, schemas), sorted(schemas))


async def over_recordings(agent, tools):
    sessions = (await agent.call("list_sessions"))["sessions"]
    assert len(sessions) == len(RECORDINGS), sessions
    known = {"show_step": 0, "predict_change": 0}
    for row in sessions:
        name = row["id"]
        await agent.call("read_session", session=name)
        await agent.call("compare_sessions", before=name, after=sessions[0]["id"])
        await agent.call("wait_for_session", session=name, seconds=0)
        # Not every recording has a process of PyTorch, or a step that was traced; the answer then says so.
        for tool, arguments, says in (
            ("show_step", {}, ("traced", "no process of PyTorch")),
            ("predict_change", {"checkpointing": True, "gpu": "A100 40GB"}, ("no process of PyTorch",)),
        ):
            try:
                await agent.call(tool, session=name, **arguments)
                known[tool] += 1
            except AssertionError as error:
                assert any(words in str(error) for words in says), error
        report = await agent.session.read_resource(f"oomph://session/{name}/report.md")
        assert report.contents[0].text.startswith("### "), report
    assert known["show_step"] >= 2 and known["predict_change"] >= 9, known
    await agent.call("explain_log", text="RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB")
    await agent.call("plan_command", command={"words": ["python", "train.py", "--batch-size", "64"]})
    await agent.refused("read_session", session="../../etc/passwd")
    assert len((await agent.session.list_resources()).resources) == len(RECORDINGS)
    print(f"recordings: {len(RECORDINGS)}, tools {len(tools)}, {agent.called} answers by their schemas")


async def as_agent(agent, _):
    failed = (await agent.call("list_sessions"))["sessions"][0]["id"]
    read = await agent.call("read_session", session=failed)
    remedy = next(remedy for remedy in read["remedies"] if remedy["expected"]["fits"])
    predicted = await agent.call("predict_change", session=failed, batch=32)
    assert predicted["expected"]["needs"] == remedy["expected"]["needs"], (predicted, remedy)
    started = await agent.call("start_again", session=failed)
    assert started["starts"] and started["remedies"] == [remedy["id"]], started
    while True:
        waited = await agent.call("wait_for_session", session=started["started"], seconds=20)
        if waited["ended"]:
            break
    assert waited["session"]["state"] == "finished", waited
    assert waited["session"]["steps"] == 6, waited
    said = waited["session"]["predictions"][0]
    print(f"agent: {remedy['changes']}, predicted {said['needs']}, held {said['held']}, {waited['session']['steps']} steps, one relaunch")


async def many(agent, calls):
    def memory():
        # The server is this process's child.
        for status in Path("/proc").glob("[0-9]*/status"):
            try:
                text = status.read_text()
                words = (status.parent / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if f"\nPPid:\t{os.getpid()}\n" in text and b"mcp" in words:
                return int(text.split("VmRSS:")[1].split()[0])
        raise AssertionError("the server is not there")

    async def round_of_calls():
        await agent.call("list_sessions")
        await agent.call("read_session")
        await agent.refused("read_session", session="nope")
        await agent.call("wait_for_session", session=name, seconds=0)

    name = (await agent.call("list_sessions"))["sessions"][0]["id"]
    for _ in range(25):
        await round_of_calls()
    before = memory()
    for _ in range(calls // 4):
        await round_of_calls()
    after = memory()
    print(f"calls: {calls} in a row, {before} KiB before and {after} KiB after")
    assert after < before + 4096, "memory grows"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oomph", required=True)
    parser.add_argument("--calls", type=int, default=1000)
    asked = parser.parse_args()
    oomph = str(Path(asked.oomph).resolve())
    served = [word for path in RECORDINGS for word in ("--recording", str(path))]
    with tempfile.TemporaryDirectory() as home:
        asyncio.run(serve(oomph, home, served, over_recordings))
    with tempfile.TemporaryDirectory() as home:
        demo = ["python3", str(DEMO), "--simulated", "--batch-size", "64", "--grad-accum", "1", "--steps", "6"]
        run = [oomph, "--headless", "--no-nvml", *demo]
        subprocess.run(run, env=environment(home), cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        asyncio.run(serve(oomph, home, ["--allow-run"], as_agent))
        asyncio.run(serve(oomph, home, [], lambda agent, _: many(agent, asked.calls)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
