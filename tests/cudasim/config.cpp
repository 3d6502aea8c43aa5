// What the runtime's double is told (Config, the environment) and what it tells (what is alive, counts,
// faults).
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

#include "cudasim/state.h"

namespace cudasim {
namespace {

constexpr int kLeak = 99;

[[noreturn]] void bad_environment(const std::string& word) {
  std::fprintf(stderr,
               "CUDASIM: \"%s\" is not one of devices= memory= eager= hidden= order= seed= name= "
               "architecture= fail=CALL:NUMBER:ERROR\n",
               word.c_str());
  std::_Exit(2);
}

Order order_of(const std::string& name) {
  if (name == "forward") return Order::forward;
  if (name == "reversed") return Order::reversed;
  if (name == "random") return Order::random;
  bad_environment("order=" + name);
}

void read_failure(const std::string& value, Config& config) {
  const std::size_t first = value.find(':'), second = value.find(':', first + 1);
  if (first == std::string::npos || second == std::string::npos) bad_environment("fail=" + value);
  config.failing_call = value.substr(0, first);
  config.failing_number = std::atoll(value.c_str() + first + 1);
  config.failing_error = static_cast<cudaError_t>(std::atoi(value.c_str() + second + 1));
}

Config config_of_environment() {
  Config config;
  const char* text = std::getenv("CUDASIM");
  std::istringstream words(text ? text : "");
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) bad_environment(word);
    const std::string name = word.substr(0, equals), value = word.substr(equals + 1);
    if (name == "devices")
      config.devices = std::atoi(value.c_str());
    else if (name == "memory")
      config.memory = std::atoll(value.c_str());
    else if (name == "eager")
      config.eager = value == "1";
    else if (name == "hidden")
      config.hidden = value == "1";
    else if (name == "order")
      config.order = order_of(value);
    else if (name == "seed")
      config.seed = static_cast<std::uint32_t>(std::atoll(value.c_str()));
    else if (name == "name")
      config.name = value;
    else if (name == "architecture")
      config.architecture = std::atoi(value.c_str());
    else if (name == "fail")
      read_failure(value, config);
    else
      bad_environment(word);
  }
  return config;
}

void report_leaks() {
  const Alive left = alive();
  if (left == Alive{}) return;
  std::fprintf(stderr,
               "cudasim: at exit %lld device allocations (%lld bytes), %lld pinned ones, %lld streams, %lld "
               "graphs and %lld events are alive\n",
               static_cast<long long>(left.device_allocations), static_cast<long long>(left.device_bytes),
               static_cast<long long>(left.pinned_allocations), static_cast<long long>(left.streams),
               static_cast<long long>(left.graphs), static_cast<long long>(left.events));
  std::fflush(nullptr);
  std::_Exit(kLeak);
}

}  // namespace

State& state() {
  static State& shared = []() -> State& {
    static State* made = new State;  // outlives every other static object
    made->config = config_of_environment();
    std::atexit(report_leaks);
    return *made;
  }();
  return shared;
}

int& current_device() {
  thread_local int device = 0;
  return device;
}
cudaError_t& last_error() {
  thread_local cudaError_t error = cudaSuccess;
  return error;
}
cudaError_t answer(cudaError_t error) {
  if (error != cudaSuccess) last_error() = error;
  return error;
}

cudaError_t entry(const Lock& /*lock*/, const char* call) {
  const Config& config = state().config;
  if (++state().calls[call] == config.failing_number && config.failing_call == call)
    return config.failing_error;
  return state().sticky;
}

Config config() {
  const Lock lock(state().mutex);
  return state().config;
}

void configure(const Config& next) {
  const Lock lock(state().mutex);
  if (next.hidden != state().config.hidden) hide_device_memory(lock, next.hidden);
  state().config = next;
  state().calls.clear();
}

Alive alive() {
  const Lock lock(state().mutex);
  Alive result;
  for (const auto& [data, allocation] : state().allocations) {
    if (allocation.device < 0) {
      ++result.pinned_allocations;
    } else {
      ++result.device_allocations;
      result.device_bytes += allocation.bytes;
    }
  }
  result.streams = static_cast<std::int64_t>(state().streams.size());
  result.events = state().events;
  result.graphs = state().graphs;
  return result;
}

Counts counts() {
  const Lock lock(state().mutex);
  return state().counts;
}

std::string last_fault() {
  const Lock lock(state().mutex);
  return state().fault;
}

void reset_devices() {
  const Lock lock(state().mutex);
  state().fault.clear();
  state().sticky = cudaSuccess;
}

}  // namespace cudasim
