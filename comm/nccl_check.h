// Checked calls of NCCL. For comm's nccl_ files only.
#pragma once

#include <nccl.h>

#include <string>

namespace lockstep::detail {

// What failed, NCCL's text for it, the last line of its own log, and what to do.
std::string nccl_error_text(ncclResult_t result, const std::string& what, ncclComm_t comm);
// Throws it as Error(peer).
[[noreturn]] void nccl_failed(ncclResult_t result, const std::string& what, ncclComm_t comm);

}  // namespace lockstep::detail

// Evaluates the expression once; `what` names the operation in the message.
#define NCCL_CHECK(expression, what, comm)                           \
  do {                                                               \
    const ncclResult_t nccl_result_ = (expression);                  \
    if (nccl_result_ != ncclSuccess) [[unlikely]] {                  \
      ::lockstep::detail::nccl_failed(nccl_result_, (what), (comm)); \
    }                                                                \
  } while (false)
