#include "core/stream.h"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>

#include "core/error.h"
#include "core/thread.h"

namespace lockstep {
namespace {

constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();

// What the queue, its thread and its events share. Tasks are numbered from 1; done counts those that have
// ended.
struct Queue {
  std::mutex mutex;
  std::condition_variable not_empty;
  std::condition_variable progress;
  std::deque<std::function<void()>> tasks;
  std::int64_t submitted = 0;
  std::int64_t done = 0;
  std::int64_t wanted = kNone;  // the first task that somebody waits for: only then is anybody woken
  std::int64_t failed = kNone;  // the task that threw
  std::exception_ptr error;
  bool stop = false;

  void run();
  void wait_for(std::int64_t ticket);  // rethrows the error of a task up to it
};

// Runs one task and returns what it threw.
std::exception_ptr run_task(const std::function<void()>& task) {
  try {
    task();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

void Queue::run() {
  std::unique_lock lock(mutex);
  while (true) {
    not_empty.wait(lock, [this] { return stop || !tasks.empty(); });
    if (tasks.empty()) return;
    std::function<void()> task = std::move(tasks.front());
    tasks.pop_front();
    const bool dropped = error != nullptr;
    lock.unlock();
    const std::exception_ptr thrown = dropped ? nullptr : run_task(task);
    // Before anybody who waits for the task goes on: what its closure holds is released by then.
    task = nullptr;
    lock.lock();
    ++done;
    if (thrown) {
      error = thrown;
      failed = done;
    }
    if (done < wanted) continue;
    wanted = kNone;
    progress.notify_all();
  }
}

void Queue::wait_for(std::int64_t ticket) {
  std::unique_lock lock(mutex);
  progress.wait(lock, [&] {
    if (done >= ticket) return true;
    wanted = std::min(wanted, ticket);
    return false;
  });
  if (ticket >= failed) std::rethrow_exception(error);
}

// The point after task `ticket`. It keeps the queue alive, so an event may outlive its stream.
class QueueEvent final : public Event::State {
 public:
  QueueEvent(std::shared_ptr<Queue> queue, std::int64_t ticket) : queue_(std::move(queue)), ticket_(ticket) {}

  bool query() override {
    const std::lock_guard lock(queue_->mutex);
    return queue_->done >= ticket_;
  }

  void synchronize() override { queue_->wait_for(ticket_); }

 private:
  std::shared_ptr<Queue> queue_;
  std::int64_t ticket_;
};

}  // namespace

void Stream::begin_recording() {
  fail(ExitCode::internal, "this kind of stream records nothing");
}

std::unique_ptr<Recording> Stream::end_recording() {
  fail(ExitCode::internal, "this kind of stream records nothing");
}

class WorkerStream::Impl {
 public:
  explicit Impl(const std::string& thread_name)
      : thread(start_thread(thread_name, [q = queue] { q->run(); })) {}

  std::shared_ptr<Queue> queue = std::make_shared<Queue>();
  std::thread thread;
};

WorkerStream::WorkerStream(const std::string& thread_name) : impl_(std::make_unique<Impl>(thread_name)) {}

WorkerStream::~WorkerStream() {
  {
    const std::lock_guard lock(impl_->queue->mutex);
    impl_->queue->stop = true;
  }
  impl_->queue->not_empty.notify_one();
  impl_->thread.join();
}

void WorkerStream::submit(std::function<void()> task) {
  {
    const std::lock_guard lock(impl_->queue->mutex);
    impl_->queue->tasks.push_back(std::move(task));
    ++impl_->queue->submitted;
  }
  impl_->queue->not_empty.notify_one();
}

Event WorkerStream::record() {
  const std::lock_guard lock(impl_->queue->mutex);
  return Event(std::make_shared<QueueEvent>(impl_->queue, impl_->queue->submitted));
}

void WorkerStream::wait(const Event& event) {
  submit([event] { event.synchronize(); });
}

void WorkerStream::synchronize() {
  record().synchronize();
}

}  // namespace lockstep
