// A profiler of a few lines: NVTX loads it where NVTX_INJECTION64_PATH names it; it writes the name of each
// range to the file NVTX_TOOL_OUTPUT.
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>

namespace {

int range_push(const char* name) {
  static std::FILE* file = std::fopen(std::getenv("NVTX_TOOL_OUTPUT"), "w");
  if (file != nullptr) std::fprintf(file, "%s\n", name);
  return 0;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size))
    return 0;
  *table[NVTX_CBID_CORE_RangePushA] = reinterpret_cast<NvtxFunctionPointer>(range_push);
  return 1;
}
