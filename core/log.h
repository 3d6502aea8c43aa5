// Messages for people, on stderr: "12:03:04 [rank 0] warning: text". Rank 0 logs from info, others from
// warnings up.
#pragma once

#include <spdlog/spdlog.h>

#include <memory>

namespace lockstep {

// The logger of one process; a program makes it in main() and passes it on.
std::shared_ptr<spdlog::logger> make_logger(int rank);

}  // namespace lockstep
