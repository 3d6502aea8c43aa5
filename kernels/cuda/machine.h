// What the ops of one device share: scratch memory and the handles of NVIDIA's libraries.
#pragma once

#include <utility>

#include "kernels/cuda/convolution.h"
#include "kernels/cuda/cublas.h"
#include "kernels/cuda/workspace.h"

namespace lockstep::cuda {

struct Machine {
  // The current device. warn is told what the libraries could not do as asked, but in another way.
  Machine(const Device& device, Convolutions::Warn warn)
      : precision(device.tf32 ? Precision::tf32 : Precision::fp32),
        workspace(CudaAllocator(device.index)),
        convolutions(DeviceProperties::of_device(device.index), workspace, precision, device.autotune,
                     std::move(warn)) {}

  Precision precision;
  Workspace workspace;
  CublasHandle cublas;
  Convolutions convolutions;
};

}  // namespace lockstep::cuda
