// The order of work: worker streams, events between streams, errors of tasks.
#include "core/stream.h"

#include <atomic>
#include <chrono>
#include <ctime>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "catch.h"
#include "core/error.h"

using namespace lockstep;
using namespace std::chrono_literals;

namespace {

// A task that does not end before it is told to: a promise of the test, not a sleep.
class Gate {
 public:
  void open() { open_.store(true), open_.notify_all(); }
  void wait() const { open_.wait(false); }

 private:
  std::atomic<bool> open_ = false;
};

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

TEST_CASE("an inline stream runs each task inside submit") {
  InlineStream stream;
  int value = 0;
  stream.submit([&] { value = 1; });
  CHECK(value == 1);
  CHECK(stream.record().query());
  CHECK_THROWS_AS(stream.submit([] { throw std::runtime_error("no"); }), std::runtime_error);
}

TEST_CASE("a worker stream runs tasks first-in first-out, on another thread") {
  WorkerStream stream("test");
  std::vector<int> order;
  const std::thread::id here = std::this_thread::get_id();
  std::atomic<bool> elsewhere = true;
  for (int i = 0; i < 1000; ++i) {
    stream.submit([&, i] {
      order.push_back(i);
      if (std::this_thread::get_id() == here) elsewhere = false;
    });
  }
  stream.synchronize();
  REQUIRE(order.size() == 1000);
  for (int i = 0; i < 1000; ++i) CHECK(order[static_cast<std::size_t>(i)] == i);
  CHECK(elsewhere);
}

TEST_CASE("an event is complete when the work before it is, not earlier") {
  WorkerStream stream("test");
  Gate gate;
  std::atomic<int> done = 0;
  stream.submit([&] { ++done; });
  const Event first = stream.record();
  first.synchronize();
  CHECK(done == 1);
  stream.submit([&] {
    gate.wait();
    ++done;
  });
  const Event second = stream.record();
  CHECK(first.query());
  CHECK_FALSE(second.query());
  gate.open();
  second.synchronize();
  CHECK(second.query());
  CHECK(done == 2);
  CHECK(Event().query());
  Event().synchronize();
}

TEST_CASE("a stream waits for an event of another one without blocking the host") {
  WorkerStream a("a"), b("b");
  Gate gate;
  int value = 0;
  a.submit([&] {
    gate.wait();
    value = 42;
  });
  b.wait(a.record());
  int seen = 0;
  b.submit([&] { seen = value; });
  CHECK_FALSE(b.record().query());
  gate.open();
  b.synchronize();
  CHECK(seen == 42);
  InlineStream inline_stream;
  a.submit([&] { value = 43; });
  inline_stream.wait(a.record());
  CHECK(value == 43);
}

TEST_CASE("after a task threw, later tasks are dropped and every later wait rethrows") {
  WorkerStream stream("test");
  int before = 0, after = 0;
  stream.submit([&] { before = 1; });
  const Event good = stream.record();
  stream.submit([] { fail(ExitCode::peer, "lost"); });
  stream.submit([&] { after = 1; });
  const Event bad = stream.record();
  for (int wait = 0; wait < 3; ++wait) CHECK_THROWS_WITH(stream.synchronize(), "lost");
  CHECK_THROWS_AS(bad.synchronize(), Error);
  CHECK_NOTHROW(good.synchronize());
  stream.submit([&] { after = 2; });
  CHECK_THROWS_WITH(stream.synchronize(), "lost");
  CHECK(before == 1);
  CHECK(after == 0);
}

TEST_CASE("an error travels along events into another stream") {
  WorkerStream a("a"), b("b");
  a.submit([] { throw std::runtime_error("first"); });
  b.wait(a.record());
  bool ran = false;
  b.submit([&] { ran = true; });
  CHECK_THROWS_WITH(b.synchronize(), "first");
  CHECK_FALSE(ran);
}

TEST_CASE("the destructor runs what is queued; an event outlives its stream") {
  int done = 0;
  Event event;
  {
    WorkerStream stream("test");
    for (int i = 0; i < 100; ++i) stream.submit([&] { ++done; });
    event = stream.record();
  }
  CHECK(done == 100);
  CHECK(event.query());
  event.synchronize();
}

TEST_CASE("what a task holds is released before a wait for it returns") {
  WorkerStream stream("test");
  auto held = std::make_shared<int>(1);
  for (int i = 0; i < 100; ++i) {
    stream.submit([held] {});
    stream.synchronize();
    REQUIRE(held.use_count() == 1);
  }
}

TEST_CASE("many threads may submit to one stream") {
  WorkerStream stream("test");
  int count = 0;  // no atomic: only the stream's thread writes it
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) stream.submit([&] { ++count; });
      stream.synchronize();
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(count == 2000);
}

TEST_CASE("waiting costs no processor time") {
  WorkerStream idle("idle"), stream("test");
  const double before = cpu_seconds();
  stream.submit([] { std::this_thread::sleep_for(300ms); });
  stream.synchronize();
  // A thread that spins would take the whole 0.3 s, and two of them wait here.
  CHECK(cpu_seconds() - before < 0.15);
}
