# libtorch for the runtime: the target tandem_torch, and TANDEM_CUDA where it computes on GPUs.
#
# Debian's is found as its own configuration says. One for CUDA (of https://pytorch.org, or of a
# Python package) would have that look for a whole CUDA toolkit, with a compiler, which nothing here
# needs: its headers and libraries are taken as they lie. CUDA's and NCCL's are looked for in a
# toolkit and in the Python packages beside it.
set(TANDEM_TORCH "" CACHE PATH "libtorch, or the directory of a Python package `torch`; default: what CMake finds")
set(TANDEM_CUDA OFF)

# Which libtorch find_package(Torch) would take.
set(torch_root "${TANDEM_TORCH}")
if(NOT torch_root)
  find_file(TANDEM_TORCH_CONFIG TorchConfig.cmake HINTS ${Torch_DIR} ENV Torch_DIR
            PATH_SUFFIXES share/cmake/Torch libtorch/share/cmake/Torch)
  mark_as_advanced(TANDEM_TORCH_CONFIG)
  if(TANDEM_TORCH_CONFIG)
    get_filename_component(torch_root ${TANDEM_TORCH_CONFIG}/../../../.. ABSOLUTE)
  endif()
endif()

# add_cuda(OUT): CUDA and NCCL become part of tandem_torch. OUT: what of them is missing.
function(add_cuda out)
  file(GLOB packages LIST_DIRECTORIES true ${torch_root}/../nvidia/*)
  find_package(CUDAToolkit QUIET)
  set(places ${packages} ${CUDAToolkit_LIBRARY_ROOT} /usr/local/cuda)
  set(missing)
  foreach(header cuda_runtime_api.h crt/host_defines.h nccl.h)
    string(MAKE_C_IDENTIFIER TANDEM_INCLUDE_${header} variable)
    find_path(${variable} ${header} HINTS ${places} ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
    mark_as_advanced(${variable})
    if(${variable})
      target_include_directories(tandem_torch SYSTEM INTERFACE ${${variable}})
    else()
      list(APPEND missing ${header})
    endif()
  endforeach()
  # By the names that they have where there are no links for compilers.
  file(GLOB versions RELATIVE ${torch_root} ${torch_root}/../nvidia/*/lib/libcudart.so.*)
  list(TRANSFORM versions REPLACE ".*/" "")
  find_library(TANDEM_CUDART NAMES cudart ${versions} NAMES_PER_DIR HINTS ${places} PATH_SUFFIXES lib lib64)
  find_library(TANDEM_NCCL NAMES nccl libnccl.so.2 NAMES_PER_DIR HINTS ${places} PATH_SUFFIXES lib lib64)
  mark_as_advanced(TANDEM_CUDART TANDEM_NCCL)
  foreach(library TANDEM_CUDART TANDEM_NCCL)
    if(${library})
      target_link_libraries(tandem_torch INTERFACE ${${library}})
    else()
      list(APPEND missing ${library})
    endif()
  endforeach()
  set(${out} "${missing}" PARENT_SCOPE)
endfunction()

# Takes the libtorch of torch_root as it lies, with CUDA.
function(take_torch)
  file(STRINGS ${torch_root}/share/cmake/Torch/TorchConfigVersion.cmake version REGEX "set.PACKAGE_VERSION ")
  string(REGEX REPLACE ".*\"([^\"]*)\".*" "\\1" version "${version}")
  set(Torch_VERSION ${version} PARENT_SCOPE)
  file(STRINGS ${torch_root}/share/cmake/Torch/TorchConfig.cmake abi REGEX "_GLIBCXX_USE_CXX11_ABI=0")
  add_library(tandem_torch INTERFACE)
  add_cuda(missing)
  if(abi)
    message(WARNING "runtime: ${torch_root} is compiled with GCC's old ABI for strings, which nothing else here is")
  elseif(missing)
    message(WARNING "runtime: not found, for the CUDA of ${torch_root}: ${missing}")
  else()
    # It brings an fmt of its own: the one that the planner is compiled with comes first.
    get_target_property(fmt_include fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/include_first)
    list(GET fmt_include 0 fmt_include)
    file(CREATE_LINK ${fmt_include}/fmt ${PROJECT_BINARY_DIR}/include_first/fmt SYMBOLIC)
    target_include_directories(tandem_torch INTERFACE ${PROJECT_BINARY_DIR}/include_first)
    target_include_directories(tandem_torch SYSTEM INTERFACE ${torch_root}/include
                                                             ${torch_root}/include/torch/csrc/api/include)
    set(libraries ${torch_root}/lib)
    # Nothing refers to the library that registers the kernels for GPUs, and it must be there all the same.
    target_link_libraries(tandem_torch INTERFACE
      ${libraries}/libc10.so ${libraries}/libtorch_cpu.so ${libraries}/libc10_cuda.so
      -Wl,--no-as-needed ${libraries}/libtorch_cuda.so ${libraries}/libtorch.so -Wl,--as-needed
      -Wl,--allow-shlib-undefined)
    target_compile_definitions(tandem_torch INTERFACE TANDEM_HAS_CUDA)
    set(TANDEM_CUDA ON PARENT_SCOPE)
    set(Torch_FOUND ON PARENT_SCOPE)
  endif()
endfunction()

if(torch_root AND EXISTS ${torch_root}/lib/libtorch_cuda.so)
  take_torch()
else()
  if(TANDEM_TORCH)
    list(PREPEND CMAKE_PREFIX_PATH ${TANDEM_TORCH})
  endif()
  set(CMAKE_MESSAGE_LOG_LEVEL NOTICE)  # QUIET does not reach all that Torch says
  find_package(Torch QUIET)
  unset(CMAKE_MESSAGE_LOG_LEVEL)
  if(Torch_FOUND)
    add_library(tandem_torch INTERFACE)
    target_include_directories(tandem_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
    target_link_libraries(tandem_torch INTERFACE ${TORCH_LIBRARIES})
    separate_arguments(torch_flags UNIX_COMMAND "${TORCH_CXX_FLAGS}")
    target_compile_options(tandem_torch INTERFACE ${torch_flags})
  endif()
endif()
