// Errors that every rank knows about: one of them prints, and the job ends in order.
#pragma once

#include <string>

#include "comm/verify.h"

namespace lockstep {

// Runs something that one rank may fail at alone; then either no rank throws, or all throw the first one's
// error as AgreedError. A plain Error means that the ranks could not be asked.
template <class Function>
void all_or_none(Communicator& communicator, Function&& function) {
  ExitCode code = ExitCode::ok;
  std::string message;
  try {
    function();
  } catch (const std::exception& exception) {
    const Error error = error_of(exception);
    code = error.code();
    message = error.what();
  }
  agree_on_error(communicator, code, message);
}

// Runs a check of what the ranks have agreed about, so that all fail alike. No collective in it: that one may
// fail on one rank alone.
template <class Function>
void on_all_ranks(Function&& function) {
  try {
    function();
  } catch (const Error& error) {
    throw AgreedError(error.code(), error.what());
  }
}

}  // namespace lockstep
