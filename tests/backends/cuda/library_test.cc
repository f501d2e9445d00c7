// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
#include "backends/cuda/library.h"

#include <stdlib.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "backends/cuda/driver_api.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"

namespace mtf::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kVariable[] = "MTF_CUDA_LIBRARY";

// Sets the environment variable for one test.
class DriverLibrary : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* before = std::getenv(kVariable);
    if (before != nullptr) before_ = before;
    folder_ = std::filesystem::temp_directory_path() /
              absl::StrCat("mtf_library_test.", getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    before_.empty() ? unsetenv(kVariable)
                    : setenv(kVariable, before_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }
  void Use(const std::string& path) { setenv(kVariable, path.c_str(), 1); }

  // Builds a shared object of `source`; "" if there is no compiler.
  std::string Build(const std::string& name, const std::string& source,
                    const std::string& options = "") {
    const std::string from = absl::StrCat(folder_.string(), "/", name, ".cc");
    const std::string to = absl::StrCat(folder_.string(), "/", name, ".so");
    std::ofstream(from) << source;
    const std::string command =
        absl::StrCat("c++ -shared -fPIC -o ", to, " ", from, " ", options,
                     " > /dev/null 2>&1");
    return std::system(command.c_str()) == 0 ? to : "";
  }

  std::filesystem::path folder_;
  std::string before_;
};

TEST_F(DriverLibrary, EnvironmentVariableIsTheOnlyPath) {
  Use("/somewhere/else.so");
  EXPECT_THAT(DriverPaths(), ElementsAre("/somewhere/else.so"));
}

TEST_F(DriverLibrary, DefaultPathsAreTheProgramsFolderAndLib) {
  unsetenv(kVariable);
  const std::vector<std::string> paths = DriverPaths();
  ASSERT_GE(paths.size(), 3u);
  const std::filesystem::path program =
      std::filesystem::read_symlink("/proc/self/exe").parent_path();
  EXPECT_EQ(paths[0], (program / "libmtf_cuda.so").string());
  EXPECT_EQ(paths[1], (program.parent_path() / "lib/libmtf_cuda.so").string());
}

TEST_F(DriverLibrary, MissingFileIsNamed) {
  Use("/nowhere/libmtf_cuda.so");
  const absl::Status status = OpenGpu(0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("file \"/nowhere/libmtf_cuda.so\" does not exist; "
                        "MTF_CUDA_LIBRARY must name"));
}

TEST_F(DriverLibrary, InvalidLibraryIsNamedWithTheReason) {
  const std::string path = absl::StrCat(folder_.string(), "/text.so");
  std::ofstream(path) << "text";
  Use(path);
  const absl::Status status = OpenGpu(0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("cannot load the CUDA driver library of mtf: "));
  EXPECT_THAT(std::string(status.message()), HasSubstr(path));
}

TEST_F(DriverLibrary, MissingDependencyIsNamed) {
  const std::string needed =
      Build("libneeded_by_it", "int needed() { return 1; }");
  if (needed.empty()) GTEST_SKIP() << "this machine has no compiler c++";
  const std::string path =
      Build("needs", "int needed(); int f() { return needed(); }", needed);
  ASSERT_NE(path, "");
  std::filesystem::remove(needed);
  Use(path);
  const absl::Status status = OpenGpu(0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("libneeded_by_it.so"));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("install the missing library"));
}

TEST_F(DriverLibrary, UnrelatedLibraryIsRejected) {
  const std::string path = Build("other", "int f() { return 1; }");
  if (path.empty()) GTEST_SKIP() << "this machine has no compiler c++";
  Use(path);
  const absl::Status status = OpenGpu(0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("is not a CUDA driver library of mtf"));
}

TEST_F(DriverLibrary, LibraryOfOtherSourcesIsRejected) {
  const std::string path =
      Build("old", "extern \"C\" long mtf_cuda_abi() { return 7; }");
  if (path.empty()) GTEST_SKIP() << "this machine has no compiler c++";
  Use(path);
  const absl::Status status = OpenGpu(0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr(absl::StrCat("its interface version is 7, not ", kDriverAbi)));
}

TEST_F(DriverLibrary, BuildWithoutCudaNamesTheOption) {
  unsetenv(kVariable);
  const auto code =
      CompileForGpu({"f", "extern \"C\" __global__ void f() {}"}, 90);
  if (code.ok()) GTEST_SKIP() << "this build has CUDA";
  EXPECT_EQ(code.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(code.status().message()),
              HasSubstr("configure with -DMTF_WITH_CUDA=ON"));
}

// Whether this build has the driver library.
bool HasDriver() { return FindDriverFunction(kMtfCudaOpen).ok(); }

TEST_F(DriverLibrary, MissingDriverOrGpuIsAClearError) {
  if (!HasDriver()) GTEST_SKIP() << "this build has no CUDA";
  const auto runtime = OpenGpu(0);
  if (runtime.ok()) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_EQ(runtime.status().code(), absl::StatusCode::kUnavailable);
  const std::string message(runtime.status().message());
  EXPECT_TRUE(absl::StrContains(message, "no NVIDIA driver") ||
              absl::StrContains(message, "this process sees no GPU") ||
              absl::StrContains(message, "older than the CUDA"))
      << message;
  EXPECT_THAT(message, HasSubstr("--backend=cpu"));
}

TEST_F(DriverLibrary, InvalidOrdinalIsNamed) {
  if (!HasDriver()) GTEST_SKIP() << "this build has no CUDA";
  if (!OpenGpu(0).ok()) GTEST_SKIP() << "this machine has no GPU";
  const absl::Status status = OpenGpu(99).status();
  // A launcher may show each process one of several GPUs.
  if (status.ok()) GTEST_SKIP() << "this process sees one GPU and takes that";
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("GPU 99 was asked for, but this process sees "));
}

TEST_F(DriverLibrary, KernelsCompileWithoutAGpu) {
  if (!HasDriver()) GTEST_SKIP() << "this build has no CUDA";
  for (int architecture : {80, 90, 100}) {
    const auto code =
        CompileForGpu({"twice",
                       "extern \"C\" __global__ void twice(float* x) {\n"
                       "  x[threadIdx.x] *= 2;\n}\n"},
                      architecture);
    ASSERT_OK(code);
    EXPECT_THAT(*code, HasSubstr("twice")) << architecture;
  }
}

TEST_F(DriverLibrary, CompileErrorShowsTheLine) {
  if (!HasDriver()) GTEST_SKIP() << "this build has no CUDA";
  const auto code = CompileForGpu(
      {"wrong", "extern \"C\" __global__ void wrong() {\n  nonsense();\n}\n"},
      90);
  EXPECT_EQ(code.status().code(), absl::StatusCode::kInternal);
  const std::string message(code.status().message());
  EXPECT_THAT(message,
              HasSubstr("kernel \"wrong\" does not compile for sm_90"));
  EXPECT_THAT(message, HasSubstr("line 2    nonsense();"));
}

// Architectures newer than the compiler's get code for any GPU.
TEST_F(DriverLibrary, UnknownArchitecturesGetPtx) {
  if (!HasDriver()) GTEST_SKIP() << "this build has no CUDA";
  const KernelSource source{"f", "extern \"C\" __global__ void f() {}"};
  const auto later = CompileForGpu(source, 990);
  ASSERT_OK(later);
  EXPECT_THAT(*later, HasSubstr(".target"));
  const auto older = CompileForGpu(source, 10);
  EXPECT_EQ(older.status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace mtf::cuda
