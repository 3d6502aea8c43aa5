// What a layer needs to run: passed explicitly, owned by the program.
#pragma once

#include "core/device.h"
#include "core/stream.h"
#include "core/trace.h"
#include "kernels/backend.h"

namespace lockstep {

struct Context {
  Backend& backend;
  Stream& stream;            // the compute stream
  Tracer* tracer = nullptr;  // null: no spans
};

}  // namespace lockstep
