// The functions of cuDNN that would touch a device. All others, and these for what is not a device's matter,
// are the real library's. Kept in one file: a program that links one of them must get all.
#include <cudnn.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include "cudasim/cudasim.h"
#include "cudasim/cudnn/cudnn_double.h"
#include "cudasim/cudnn/plan.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace cudasim {
namespace {

// A variant pack cannot be read back from cuDNN, so it is noted on the way in.
struct VariantPack {
  std::vector<std::int64_t> ids;
  std::vector<void*> pointers;
  void* workspace = nullptr;
};

struct State {
  std::mutex mutex;
  std::map<cudnnBackendDescriptor_t, VariantPack> packs;
  int refusals = 0;
  std::int64_t executions = 0, slow_from = 0, slow_to = 0;
};

State& state() {
  static State state;
  return state;
}

template <class Function>
Function* real(Function*, const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  if (found == nullptr) throw std::runtime_error(std::string("libcudnn has no ") + name);
  return reinterpret_cast<Function*>(found);
}

template <class T>
void note(std::vector<T>& to, const void* values, std::int64_t count) {
  const T* first = static_cast<const T*>(values);
  to.assign(first, first + count);
}

std::string json_of(cudnnBackendDescriptor_t plan) {
  std::int64_t count = 0;
  constexpr auto name = CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION;
  if (cudnnBackendGetAttribute(plan, name, CUDNN_TYPE_CHAR, 0, &count, nullptr) != CUDNN_STATUS_SUCCESS) {
    throw std::runtime_error("the plan is not finalized");
  }
  std::string json(static_cast<std::size_t>(count), '\0');
  cudnnBackendGetAttribute(plan, name, CUDNN_TYPE_CHAR, count, &count, json.data());
  return json.c_str();
}

// A backend descriptor of ours, to receive one.
class Received {
 public:
  explicit Received(cudnnBackendDescriptorType_t type) { cudnnBackendCreateDescriptor(type, &descriptor_); }
  ~Received() { cudnnBackendDestroyDescriptor(descriptor_); }
  Received(const Received&) = delete;
  Received& operator=(const Received&) = delete;

  cudnnBackendDescriptor_t get() const { return descriptor_; }
  void take(cudnnBackendDescriptor_t from, cudnnBackendAttributeName_t name) {
    std::int64_t count = 0;
    if (cudnnBackendGetAttribute(from, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &descriptor_) !=
        CUDNN_STATUS_SUCCESS) {
      throw std::runtime_error("the plan does not say which engine it has");
    }
  }

 private:
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

bool uses_tensor_cores(cudnnBackendDescriptor_t plan) {
  Received config(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR), engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  config.take(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  engine.take(config.get(), CUDNN_ATTR_ENGINECFG_ENGINE);
  std::int64_t count = 0;
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes;
  cudnnBackendGetAttribute(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                           static_cast<std::int64_t>(notes.size()), &count, notes.data());
  return std::find(notes.begin(), notes.begin() + count, CUDNN_NUMERICAL_NOTE_TENSOR_CORE) !=
         notes.begin() + count;
}

// Gives the tensor the pointer that the pack has for it.
void bind(Tensor& tensor, const VariantPack& pack) {
  for (std::size_t i = 0; i < pack.ids.size(); ++i) {
    if (std::to_string(pack.ids[i]) == tensor.id) tensor.data = pack.pointers.at(i);
  }
  if (!is_device_memory(tensor.data, tensor.bytes())) {
    throw std::runtime_error("tensor " + tensor.id + " does not lie in device memory");
  }
  if (reinterpret_cast<std::uintptr_t>(tensor.data) % 16 != 0) {
    throw std::runtime_error("tensor " + tensor.id + " is not aligned as its descriptor says");
  }
}

// Whether this execution is one of the slow ones.
bool is_slow() {
  const std::lock_guard lock(state().mutex);
  const std::int64_t execution = state().executions++;
  return execution >= state().slow_from && execution < state().slow_to;
}

void execute(cudnnContext& handle, cudnnBackendDescriptor_t descriptor, const VariantPack& pack) {
  Plan plan = parse_plan(json_of(descriptor));
  plan.tf32 = plan.x.type == Type::f32 && uses_tensor_cores(descriptor);
  for (Tensor* tensor : {&plan.x, &plan.w, &plan.y}) bind(*tensor, pack);
  std::int64_t count = 0, bytes = 0;
  cudnnBackendGetAttribute(descriptor, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count,
                           &bytes);
  if (bytes > 0 && !is_device_memory(pack.workspace, bytes)) {
    throw std::runtime_error("the workspace is smaller than the plan needs");
  }
  enqueue(handle.stream, [plan, workspace = pack.workspace, bytes, slow = is_slow()] {
    if (slow) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (bytes > 0) std::memset(workspace, 0xff, static_cast<std::size_t>(bytes));  // whatever was in it
    compute(plan);
  });
}

}  // namespace

void refuse_plans(int count) {
  const std::lock_guard lock(state().mutex);
  state().refusals = count;
}

void slow_plans(int count, int first) {
  const std::lock_guard lock(state().mutex);
  state().slow_from = state().executions + first;
  state().slow_to = state().slow_from + count;
}

std::string gpu_properties(const std::string& name) {
  std::ifstream file(CUDASIM_CUDNN_DIR "/" + name + ".json");
  std::stringstream text;
  text << file.rdbuf();
  if (text.str().empty()) throw std::runtime_error("there is no " + name + ".json");
  return text.str();
}

}  // namespace cudasim

using namespace cudasim;

extern "C" {

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count,
                                       const void* values) {
  static const auto real_one = real(&cudnnBackendSetAttribute, "cudnnBackendSetAttribute");
  if (name == CUDNN_ATTR_DEVICEPROP_DEVICE_ID) {
    // The real library would ask the driver, of which there is none.
    const std::string json = gpu_properties("h200");
    return real_one(descriptor, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                    static_cast<std::int64_t>(json.size()), json.data());
  }
  if (name == CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS || name == CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS ||
      name == CUDNN_ATTR_VARIANT_PACK_WORKSPACE) {
    const std::lock_guard lock(state().mutex);
    VariantPack& pack = state().packs[descriptor];
    if (name == CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS) note(pack.ids, values, count);
    if (name == CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS) note(pack.pointers, values, count);
    if (name == CUDNN_ATTR_VARIANT_PACK_WORKSPACE) pack.workspace = *static_cast<void* const*>(values);
  }
  return real_one(descriptor, name, type, count, values);
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  static const auto real_one = real(&cudnnBackendDestroyDescriptor, "cudnnBackendDestroyDescriptor");
  {
    const std::lock_guard lock(state().mutex);
    state().packs.erase(descriptor);
  }
  return real_one(descriptor);
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t variant_pack) {
  VariantPack pack;
  {
    const std::lock_guard lock(state().mutex);
    if (state().refusals > 0) {
      --state().refusals;
      return CUDNN_STATUS_EXECUTION_FAILED;
    }
    pack = state().packs[variant_pack];
  }
  try {
    execute(*handle, plan, pack);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cudasim: cudnnBackendExecute: %s\n", error.what());
    return CUDNN_STATUS_BAD_PARAM;
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
