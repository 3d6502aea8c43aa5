// Start-up verification: before anything is broadcast, all ranks prove that they run the same thing.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "core/error.h"

namespace lockstep {

// (key, value) pairs in order: options, or parameter names with their shapes.
using Items = std::vector<std::pair<std::string, std::string>>;

// Compares a hash over all ranks; where they differ, the texts. AgreedError(peer) on every rank, naming the
// first rank that differs from rank 0, the first item that does and both values. `what` names one item in
// messages: "option", "parameter".
void verify_equal(Communicator& communicator, const std::string& what, const Items& items);

// A failure that one rank may have had alone (a file that only it cannot read): every rank throws the error
// of the lowest rank that failed, as AgreedError, or nobody throws. Code ok: this rank has not failed.
//
// Both throw a plain Error where the comparison itself fails: then this rank may be the only one that knows.
void agree_on_error(Communicator& communicator, ExitCode code, const std::string& message);

}  // namespace lockstep
