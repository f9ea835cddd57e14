"""asyncio: subprocesses with pipes and without, a signal, a timeout, a stream."""
import asyncio
import os
import signal


async def main():
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    loop.add_signal_handler(signal.SIGUSR1, told.set)
    process = await asyncio.create_subprocess_exec("cat", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate(b"through cat\n" * 1000)
    print(len(out), process.returncode)
    process = await asyncio.create_subprocess_shell("echo inherited; echo apart >&2; exit 7")
    print(await process.wait(), flush=True)
    process = await asyncio.create_subprocess_exec("sleep", "60")
    try:
        await asyncio.wait_for(process.wait(), 0.05)
    except asyncio.TimeoutError:
        process.terminate()
    print(await process.wait())
    os.kill(os.getpid(), signal.SIGUSR1)
    await told.wait()
    print("told")


asyncio.run(main())
