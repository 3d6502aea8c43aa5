// Names what the host does for NVIDIA's profilers (NVTX ranges). Where none is attached a range costs a
// branch.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

namespace detail {
// Whether a profiler has attached itself to this process; false in a build without CUDA.
bool profiler_attached();
void push_profiler_range(const std::string& name);
void pop_profiler_range();
}  // namespace detail

// A range of the calling thread, from construction to destruction. What is enqueued on a device meanwhile
// belongs to it.
class ProfilerRange {
 public:
  explicit ProfilerRange(std::string_view name) : attached_(detail::profiler_attached()) {
    if (attached_) detail::push_profiler_range(std::string(name));
  }
  ~ProfilerRange() {
    if (attached_) detail::pop_profiler_range();
  }
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;

 private:
  bool attached_;
};

}  // namespace lockstep
