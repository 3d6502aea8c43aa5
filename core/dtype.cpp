#include "core/dtype.h"

namespace lockstep {

std::int64_t size_of(DType type) {
  switch (type) {
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::bf16:
    case DType::f16:
      return 2;
    case DType::u8:
      return 1;
  }
  return 0;
}

const char* name_of(DType type) {
  switch (type) {
    case DType::f32:
      return "f32";
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "f16";
    case DType::u8:
      return "u8";
    case DType::i32:
      return "i32";
  }
  return "unknown";
}

}  // namespace lockstep
