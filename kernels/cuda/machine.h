// What the ops of one device share: scratch memory and the handles of NVIDIA's libraries.
#pragma once

#include "kernels/cuda/convolution.h"
#include "kernels/cuda/cublas.h"
#include "kernels/cuda/workspace.h"

namespace lockstep::cuda {

struct Machine {
  explicit Machine(int device);

  Workspace workspace;
  CublasHandle cublas;
  Convolutions convolutions;
};

}  // namespace lockstep::cuda
