"""multiprocessing with the start method that is named: a pool, a queue, an event, what a worker sees."""
import multiprocessing
import os
import sys


def square(number):
    return number * number


def worker(queue, event):
    event.wait()
    queue.put((os.isatty(1), sorted(os.environ) == sorted(os.environ), multiprocessing.current_process().name, sys.flags.isolated))


def failing():
    sys.stderr.write("a worker's last words\n")
    os._exit(9)


if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with context.Pool(2) as pool:
        print(pool.map(square, range(20)))
    queue, event = context.Queue(), context.Event()
    process = context.Process(target=worker, args=(queue, event))
    process.start()
    event.set()
    print(queue.get())
    process.join()
    failed = context.Process(target=failing)
    failed.start()
    failed.join()
    print(process.exitcode, failed.exitcode, len(multiprocessing.active_children()))
