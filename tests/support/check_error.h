// Expects an Error of a code, whose text holds a part.
#pragma once

#include <string>

#include "catch.h"
#include "core/error.h"

namespace lockstep::test {

template <class Action>
void check_error(ExitCode code, const std::string& part, const Action& action) {
  try {
    action();
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == code);
    INFO(error.what());
    CHECK(std::string(error.what()).find(part) != std::string::npos);
  }
}

}  // namespace lockstep::test
