"""Threads and processes of concurrent.futures."""
import concurrent.futures
import os

if __name__ == "__main__":
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        print(sorted(pool.map(lambda n: n + 1, range(10))))
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        print(sorted(pool.map(abs, range(-5, 5))))
    print(sorted(name for name in os.listdir(".")))
