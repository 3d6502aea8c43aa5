// A library of NVIDIA's that is loaded when its first function is called. Linked, cuBLAS, cuDNN and NCCL
// would cost each start of every program a tenth of a second and more than 600 MB of address space, and no
// program would start where one of them is missing.
//
// A file of forwarders keeps a struct of the library's functions, which is made at the first call: what
// destroys a handle later, in a destructor, cannot fail to be found.
#pragma once

#include <initializer_list>

namespace lockstep {

class CudaLibrary {
 public:
  // Found by the system's search path or in `folders`, where it lay when this was built. Stays loaded.
  // Error(device) with the loader's reason.
  CudaLibrary(const char* name, std::initializer_list<const char*> folders);

  // Error(device) where the library has no function of that name.
  template <class Function>
  Function* find(const char* function) const {
    return reinterpret_cast<Function*>(address_of(function));
  }

 private:
  void* address_of(const char* function) const;

  const char* name_;
  void* handle_;
};

}  // namespace lockstep

#define LOCKSTEP_TEXT_OF(x) #x
#define LOCKSTEP_TEXT(x) LOCKSTEP_TEXT_OF(x)
// A member of such a struct, behind `CudaLibrary library`: the function of that name, with its header's type.
#define LOCKSTEP_FUNCTION(name) decltype(::name)* name = library.find<decltype(::name)>(#name)
