// Messages between two ranks of a job: what the hand-written algorithms (algorithms.h) run on.
#pragma once

#include <cstdint>

namespace lockstep {

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Both start a message and return a request at once; the memory is left alone until wait(). The messages
  // from one rank to another arrive in the order in which they were sent, each whole.
  virtual int send(int to, const void* data, std::int64_t bytes) = 0;
  virtual int receive(int from, void* data, std::int64_t bytes) = 0;
  // Every request is waited for once. Error(peer) where the message cannot arrive.
  virtual void wait(int request) = 0;
};

}  // namespace lockstep
