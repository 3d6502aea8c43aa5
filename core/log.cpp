#include "core/log.h"

#include <spdlog/sinks/stdout_sinks.h>

#include <string>

namespace lockstep {

std::shared_ptr<spdlog::logger> make_logger(int rank) {
  auto logger =
      std::make_shared<spdlog::logger>("lockstep", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("%T [rank " + std::to_string(rank) + "] %l: %v");
  logger->set_level(rank == 0 ? spdlog::level::info : spdlog::level::warn);
  return logger;
}

}  // namespace lockstep
