// SPDX-License-Identifier: Apache-2.0
#include "backends/host_memory.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace mtf {
namespace {

// A folder with the files of control groups.
class ControlGroups : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = absl::StrCat(root_, "/", path);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  const std::string root_ =
      absl::StrCat(::testing::TempDir(), "/control_groups_", getpid());
};

TEST_F(ControlGroups, TheSmallestLimitOfVersion2) {
  EXPECT_EQ(ControlGroupMemoryLimit(root_), std::nullopt);
  Write("proc/self/cgroup", "0::/slurm/job_7/step");
  EXPECT_EQ(ControlGroupMemoryLimit(root_), std::nullopt);
  Write("sys/fs/cgroup/slurm/job_7/step/memory.max", "max");
  EXPECT_EQ(ControlGroupMemoryLimit(root_), std::nullopt);
  Write("sys/fs/cgroup/slurm/job_7/memory.max", "2000");
  EXPECT_EQ(ControlGroupMemoryLimit(root_), 2000);
  Write("sys/fs/cgroup/slurm/memory.max", "5000");
  EXPECT_EQ(ControlGroupMemoryLimit(root_), 2000);
  Write("sys/fs/cgroup/slurm/job_7/step/memory.max", "1000");
  EXPECT_EQ(ControlGroupMemoryLimit(root_), 1000);
}

// In a container the group is "/", or a path that only the host has.
TEST_F(ControlGroups, TheLimitOfAContainer) {
  for (const char* group : {"/", "/docker/0123"}) {
    Write("proc/self/cgroup", absl::StrCat("0::", group));
    Write("sys/fs/cgroup/memory.max", "3000");
    EXPECT_EQ(ControlGroupMemoryLimit(root_), 3000);
  }
}

TEST_F(ControlGroups, TheLimitOfVersion1) {
  Write("proc/self/cgroup",
        "12:cpu,cpuacct:/a\n4:hugetlb,memory:/docker/0123\nnonsense");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(ControlGroupMemoryLimit(root_), 9223372036854771712);
  Write("sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "4000");
  EXPECT_EQ(ControlGroupMemoryLimit(root_), 4000);
}

TEST(HostMemory, IsAtMostThePhysicalMemory) {
  EXPECT_GT(HostMemoryBytes(), 0);
  EXPECT_LE(HostMemoryBytes(), static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) *
                                   sysconf(_SC_PAGE_SIZE));
}

}  // namespace
}  // namespace mtf
