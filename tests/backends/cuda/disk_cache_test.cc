// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/disk_cache.h"

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtf::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Optional;

class DiskCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    static int runs = 0;
    folder_ = std::filesystem::temp_directory_path() /
              absl::StrCat("mtf_disk_cache_test.", getpid(), ".", ++runs);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  DiskCache Cache() const { return DiskCache((folder_ / "kernels").string()); }
  std::vector<std::filesystem::path> Files() const {
    std::vector<std::filesystem::path> files;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(folder_)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
    return files;
  }

  std::filesystem::path folder_;
};

TEST_F(DiskCacheTest, StoredEntryIsFoundByALaterCache) {
  EXPECT_EQ(Cache().Find("key"), std::nullopt);
  const std::string content("bytes\0and more\n", 15);
  Cache().Keep("key", content);
  EXPECT_THAT(Cache().Find("key"), Optional(content));
  EXPECT_EQ(Cache().Find("another key"), std::nullopt);
  Cache().Keep("key", "new");
  EXPECT_THAT(Cache().Find("key"), Optional(std::string("new")));
}

TEST_F(DiskCacheTest, DamagedFilesCountAsMissing) {
  const std::string content(1000, 'x');
  Cache().Keep("key", content);
  ASSERT_EQ(Files().size(), 1u);
  const std::filesystem::path file = Files()[0];
  std::string stored;
  {
    std::ifstream in(file, std::ios::binary);
    stored.assign(std::istreambuf_iterator<char>(in), {});
  }
  const auto write = [&](const std::string& text) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << text;
  };
  for (size_t size = 0; size < stored.size(); size += 13) {
    write(stored.substr(0, size));
    EXPECT_EQ(Cache().Find("key"), std::nullopt) << size;
  }
  for (size_t at = 0; at < stored.size(); at += 7) {
    std::string damaged = stored;
    damaged[at] ^= 4;
    write(damaged);
    EXPECT_EQ(Cache().Find("key"), std::nullopt) << at;
  }
  write(stored + "more");
  EXPECT_EQ(Cache().Find("key"), std::nullopt);
  write(stored);
  EXPECT_THAT(Cache().Find("key"), Optional(content));
}

TEST_F(DiskCacheTest, ConcurrentWritersLeaveOneCompleteFile) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      for (int j = 0; j < 50; ++j) {
        Cache().Keep("key", std::string(10000 + i, 'a' + i));
        const auto found = Cache().Find("key");
        ASSERT_TRUE(found.has_value());
        EXPECT_EQ(*found, std::string(found->size(), (*found)[0]));
        EXPECT_EQ(static_cast<int>(found->size()), 10000 + (*found)[0] - 'a');
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Files().size(), 1u);
}

TEST_F(DiskCacheTest, FolderThatCannotBeCreatedIsNotAnError) {
  const DiskCache nowhere("/proc/nowhere/cache");
  nowhere.Keep("key", "content");
  EXPECT_EQ(nowhere.Find("key"), std::nullopt);
  const DiskCache none("");
  none.Keep("key", "content");
  EXPECT_EQ(none.Find("key"), std::nullopt);
}

TEST_F(DiskCacheTest, EnvironmentVariablesSetTheFolder) {
  const char* before = std::getenv("MTF_CACHE_DIR");
  const std::string kept = before == nullptr ? "" : before;
  setenv("MTF_CACHE_DIR", "/some/where", 1);
  EXPECT_EQ(DiskCache::Folder("kernels"), "/some/where/kernels");
  setenv("MTF_CACHE_DIR", "", 1);
  EXPECT_EQ(DiskCache::Folder("kernels"), "");
  before == nullptr ? unsetenv("MTF_CACHE_DIR")
                    : setenv("MTF_CACHE_DIR", kept.c_str(), 1);
}

// Reported once per folder, however often it fails.
TEST_F(DiskCacheTest, FailureToWriteIsReportedOnce) {
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ / "kernels") << "a file where the folder would be";
  ::testing::internal::CaptureStderr();
  Cache().Keep("key", "content");
  Cache().Keep("key", "content");
  const std::string printed = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(printed, AllOf(HasSubstr((folder_ / "kernels").string()),
                             HasSubstr("MTF_CACHE_DIR")));
  EXPECT_EQ(printed.find("note:"), printed.rfind("note:")) << printed;
  EXPECT_EQ(Cache().Find("key"), std::nullopt);
}

}  // namespace
}  // namespace mtf::cuda
