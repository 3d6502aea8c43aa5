// Messages between threads, as treacherous as the rules of comm/transport.h allow: a message is copied when
// one of the two waits for it and no earlier, so a sender that touches its data before its wait sends the
// touched data; and a receive fills its memory with NaN when it is posted.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "comm/transport.h"
#include "core/error.h"

namespace lockstep::test {

// Where the ranks of one job leave their messages.
class Post {
 public:
  explicit Post(int ranks) : ranks_(ranks) {}
  int ranks() const { return ranks_; }

 private:
  friend class ThreadTransport;
  // Filled in by both sides, in whatever order they come.
  struct Message {
    const void* from = nullptr;
    void* to = nullptr;
    std::int64_t sent = -1, expected = -1;  // bytes
    bool arrived = false;
  };
  struct Lane {
    std::deque<Message> messages;  // all there ever were
    std::size_t sends = 0, receives = 0;
    Message& at(std::size_t number) {
      if (messages.size() <= number) messages.resize(number + 1);
      return messages[number];
    }
  };
  const int ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<int, int>, Lane> lanes_;  // by sender and receiver
};

class ThreadTransport final : public Transport {
 public:
  ThreadTransport(Post& post, int rank) : post_(post), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return post_.ranks(); }

  int send(int to, const void* data, std::int64_t bytes) override {
    check_peer(to);
    const std::lock_guard lock(post_.mutex_);
    Post::Lane& lane = post_.lanes_[{rank_, to}];
    Post::Message& message = lane.at(lane.sends++);
    message.from = data;
    message.sent = bytes;
    return add(message);
  }

  int receive(int from, void* data, std::int64_t bytes) override {
    check_peer(from);
    std::memset(data, 0xff, static_cast<std::size_t>(bytes));
    const std::lock_guard lock(post_.mutex_);
    Post::Lane& lane = post_.lanes_[{from, rank_}];
    Post::Message& message = lane.at(lane.receives++);
    message.to = data;
    message.expected = bytes;
    return add(message);
  }

  void wait(int request) override {
    std::unique_lock lock(post_.mutex_);
    Post::Message*& pending = requests_.at(static_cast<std::size_t>(request));
    LOCKSTEP_CHECK(pending, "request {} is waited for twice", request);
    Post::Message& message = *std::exchange(pending, nullptr);
    post_.changed_.wait(lock, [&] { return message.sent >= 0 && message.expected >= 0; });
    if (message.arrived) return;
    LOCKSTEP_CHECK(message.sent == message.expected, "{} bytes were sent, {} are received", message.sent,
                   message.expected);
    std::memcpy(message.to, message.from, static_cast<std::size_t>(message.sent));
    message.arrived = true;
  }

  // Every request was waited for.
  bool idle() const {
    return std::all_of(requests_.begin(), requests_.end(), [](const auto* pending) { return !pending; });
  }

 private:
  int add(Post::Message& message) {
    requests_.push_back(&message);
    post_.changed_.notify_all();
    return static_cast<int>(requests_.size()) - 1;
  }
  void check_peer(int peer) const {
    LOCKSTEP_CHECK(peer >= 0 && peer < size() && peer != rank_, "rank {} talks to rank {}", rank_, peer);
  }

  Post& post_;
  int rank_;
  std::vector<Post::Message*> requests_;  // null: waited for
};

}  // namespace lockstep::test
