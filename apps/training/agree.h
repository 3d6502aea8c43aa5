// Errors that every rank knows about: one of them prints, and the job ends in order.
#pragma once

#include <string>

#include "comm/verify.h"

namespace lockstep {

// Thrown on every rank, with the same text.
class AgreedError : public Error {
 public:
  using Error::Error;
};

// Runs something that one rank may fail at alone; then either no rank throws, or all throw the first one's
// error.
template <class Function>
void all_or_none(Communicator& communicator, Function&& function) {
  ExitCode code = ExitCode::ok;
  std::string message;
  try {
    function();
  } catch (const Error& error) {
    code = error.code();
    message = error.what();
  }
  try {
    agree_on_error(communicator, code, message);
  } catch (const Error& error) {
    throw AgreedError(error.code(), error.what());
  }
}

// Runs something that fails on all ranks alike: a comparison of all ranks, or a check of what they agree
// about.
template <class Function>
void on_all_ranks(Function&& function) {
  try {
    function();
  } catch (const Error& error) {
    throw AgreedError(error.code(), error.what());
  }
}

}  // namespace lockstep
