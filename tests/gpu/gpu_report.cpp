// gpu_report: what this machine's GPUs and NVIDIA's libraries are, as one JSON object on standard output; and
// whether cuDNN chooses the engines here that were chosen where there was no GPU, from a file with the
// properties of one.
//
//   gpu_report [--planned FOLDER]     FOLDER holds such files, one a GPU (tests/cudasim/cudnn)
//
// Without a device: the reason, and exit code 6.
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/cuda_check.h"
#include "core/cuda_identity.h"
#include "core/device.h"
#include "core/error.h"
#include "gpu/resnet_convolutions.h"
#include "kernels/cuda/convolution_plans.h"
#include "kernels/cuda/cublas.h"

using namespace lockstep;
using Json = nlohmann::ordered_json;
using cuda::DeviceProperties;

namespace {

int attribute(cudaDeviceAttr name, int device) {
  int value = 0;
  CUDA_CHECK(cudaDeviceGetAttribute(&value, name, device));
  return value;
}

Json describe_device(int index) {
  cudaDeviceProp p = {};
  CUDA_CHECK(cudaGetDeviceProperties(&p, index));
  return {{"index", index},
          {"name", p.name},
          {"uuid", cuda_identity(index).uuid},
          {"compute_capability", fmt::format("{}.{}", p.major, p.minor)},
          {"multiprocessors", p.multiProcessorCount},
          {"memory_bytes", p.totalGlobalMem},
          {"memory_bus_bits", p.memoryBusWidth},
          {"sm_clock_khz", attribute(cudaDevAttrClockRate, index)},
          {"memory_clock_khz", attribute(cudaDevAttrMemoryClockRate, index)},
          {"l2_bytes", p.l2CacheSize},
          {"shared_memory_bytes_per_multiprocessor", p.sharedMemPerMultiprocessor},
          {"shared_memory_bytes_per_block", p.sharedMemPerBlock},
          {"registers_per_multiprocessor", p.regsPerMultiprocessor},
          {"ecc", p.ECCEnabled != 0}};
}

std::string cuda_version(cudaError_t (*ask)(int*)) {
  int version = 0;
  CUDA_CHECK(ask(&version));
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string cublas_version() {
  int parts[3] = {};
  for (const libraryPropertyType part : {MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL})
    CUBLAS_CHECK(cublasGetProperty(part, &parts[part]));
  return fmt::format("{}.{}.{}", parts[0], parts[1], parts[2]);
}

// A library that only some runs need: where it cannot be loaded the report says why.
template <class Ask>
std::string version_or_reason(const Ask& ask) {
  try {
    return ask();
  } catch (const Error& error) {
    return error.what();
  }
}

Json versions() {
  return {{"driver", cuda_version(cudaDriverGetVersion)},
          {"runtime", cuda_version(cudaRuntimeGetVersion)},
          {"cublas", version_or_reason(cublas_version)},
          {"cudnn", version_or_reason([] {
             const std::size_t v = cudnnGetVersion();
             return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
           })},
          {"nccl", version_or_reason([] {
             int v = 0;
             if (ncclGetVersion(&v) != ncclSuccess) fail(ExitCode::device, "ncclGetVersion failed");
             return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
           })}};
}

// The properties in the folder that are of a GPU of this architecture; null where there are none.
Json planned_properties(const std::string& folder, const Json& actual) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    const Json properties = Json::parse(std::ifstream(entry.path()));
    if (properties.at("deviceVer") == actual.at("deviceVer")) return properties;
  }
  return nullptr;
}

Json differences(const Json& planned, const Json& actual) {
  Json different = Json::object();
  for (const auto& [key, value] : actual.items()) {
    if (!planned.contains(key) || planned[key] != value)
      different[key] = {{"planned", planned.contains(key) ? planned[key] : Json()}, {"here", value}};
  }
  return different;
}

// The plan that training would take, in a line: "engine 28, SPLIT_K 1, TILE_SIZE 4".
std::string engine_of(const cuda::Convolution& convolution, const DeviceProperties& properties) {
  const cuda::ConvolutionPlan plan(convolution, properties, cuda::Precision::fp32);
  const Json engine = Json::parse(plan.json()).at("engine");
  std::string text = fmt::format("engine {}", engine.at("engineId").get<int>());
  const std::string prefix = "CUDNN_KNOB_TYPE_";
  for (const auto& [knob, choice] : engine.at("knobChoices").items())
    text += fmt::format(", {} {}", knob.substr(knob.starts_with(prefix) ? prefix.size() : 0), choice.dump());
  return text;
}

// For every convolution of every ResNet in training, on ImageNet's pictures and on CIFAR's: what is chosen
// here, and where other properties lead to another choice, that one.
Json compare_engines(const DeviceProperties& planned, const DeviceProperties& actual) {
  Json here = Json::object(), planned_otherwise = Json::object();
  for (const bool imagenet : {true, false}) {
    for (const ConvShape& shape : test::resnet_convolutions(imagenet, 128, imagenet ? 224 : 32)) {
      for (const DType type : {DType::f32, DType::bf16}) {
        for (const cuda::Direction direction :
             {cuda::Direction::forward, cuda::Direction::backward_data, cuda::Direction::backward_weight}) {
          const cuda::Convolution convolution{direction, shape, type, false};
          const std::string name = describe(convolution);
          here[name] = engine_of(convolution, actual);
          if (const std::string other = engine_of(convolution, planned); other != here[name])
            planned_otherwise[name] = other;
        }
      }
    }
  }
  return {{"compared", here.size()}, {"planned_otherwise", planned_otherwise}, {"here", here}};
}

Json cudnn_report(const std::string& folder) {
  const auto actual = DeviceProperties::of_device(0);
  const Json properties = Json::parse(actual.json());
  Json report = {{"device_properties", properties}};
  if (folder.empty()) return report;
  const Json planned = planned_properties(folder, properties);
  if (planned.is_null()) {
    report["planned"] = fmt::format("{} has no GPU of this architecture", folder);
    return report;
  }
  report["planned_for"] = planned.at("deviceName");
  report["differences"] = differences(planned, properties);
  report["engines"] = compare_engines(DeviceProperties::from_json(planned.dump()), actual);
  return report;
}

int report(const std::string& folder) {
  std::string why;
  const int count = cuda_device_count(&why);
  if (count == 0) fail(ExitCode::device, "there is no CUDA device to report on: {}", why);
  CUDA_CHECK(cudaSetDevice(0));
  Json result = {{"device_count", count}, {"devices", Json::array()}, {"versions", versions()}};
  for (int i = 0; i < count; ++i) result["devices"].push_back(describe_device(i));
  ExitCode code = ExitCode::ok;
  try {
    result["cudnn"] = cudnn_report(folder);
  } catch (const Error& error) {  // what is known so far is still worth a report
    result["cudnn"] = {{"error", error.what()}};
    fmt::print(stderr, "error: {}\n", error.what());
    code = ExitCode::internal;  // not `device`: there is one
  }
  fmt::print("{}\n", result.dump(1));
  return static_cast<int>(code);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("What this machine's GPUs and NVIDIA's libraries are, as JSON");
  std::string folder;
  app.add_option("--planned", folder, "Folder with the properties of GPUs for which engines were planned")
      ->check(CLI::ExistingDirectory);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::usage);
  }
  try {
    return report(folder);
  } catch (const std::exception& exception) {
    const Error error = error_of(exception);
    fmt::print(stderr, "error: {}\n", error.what());
    return static_cast<int>(error.code());
  }
}
