// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/disk_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <mutex>
#include <set>
#include <sstream>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace mtf::cuda {
namespace {

// FNV-1a. Used for file names and to detect damage; a file contains its full
// key.
uint64_t Digest(absl::string_view text) {
  uint64_t digest = 14695981039346656037u;
  for (const char c : text) {
    digest = (digest ^ static_cast<unsigned char>(c)) * 1099511628211u;
  }
  return digest;
}

// "mtf 1 KEY_BYTES CONTENT_BYTES DIGEST\n", then the key and the content.
std::string Header(absl::string_view key, absl::string_view content) {
  return absl::StrCat("mtf 1 ", key.size(), " ", content.size(), " ",
                      absl::Hex(Digest(content), absl::kZeroPad16), "\n");
}

// Warns once per folder.
void ReportNotStored(const std::string& folder, const std::string& why) {
  static std::mutex mutex;
  static std::set<std::string>& reported = *new std::set<std::string>;
  std::lock_guard<std::mutex> lock(mutex);
  if (!reported.insert(folder).second) return;
  std::cerr
      << "note: cannot write the cache in " << folder << " (" << why
      << "), so its contents are computed at every start; MTF_CACHE_DIR names "
         "another folder"
      << std::endl;
}

}  // namespace

std::string DiskCache::Folder(absl::string_view name) {
  const auto read = [](const char* variable) -> std::string {
    const char* value = std::getenv(variable);
    return value == nullptr ? "" : value;
  };
  if (const char* own = std::getenv("MTF_CACHE_DIR")) {
    return *own == '\0' ? "" : absl::StrCat(own, "/", name);
  }
  if (const std::string xdg = read("XDG_CACHE_HOME"); !xdg.empty()) {
    return absl::StrCat(xdg, "/mtf/", name);
  }
  if (const std::string home = read("HOME"); !home.empty()) {
    return absl::StrCat(home, "/.cache/mtf/", name);
  }
  return "";
}

std::string DiskCache::PathOf(absl::string_view key) const {
  return absl::StrCat(folder_, "/", absl::Hex(Digest(key), absl::kZeroPad16));
}

std::optional<std::string> DiskCache::Find(absl::string_view key) const {
  if (folder_.empty()) return std::nullopt;
  std::ifstream file(PathOf(key), std::ios::binary);
  if (!file) return std::nullopt;
  std::ostringstream read;
  read << file.rdbuf();
  const std::string text = read.str();
  const size_t line = text.find('\n');
  if (line == std::string::npos) return std::nullopt;
  if (text.size() < line + 1 + key.size()) return std::nullopt;
  if (absl::string_view(text).substr(line + 1, key.size()) != key) {
    return std::nullopt;
  }
  std::string content = text.substr(line + 1 + key.size());
  if (text.substr(0, line + 1) != Header(key, content)) return std::nullopt;
  return content;
}

void DiskCache::Keep(absl::string_view key, absl::string_view content) const {
  if (folder_.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) return ReportNotStored(folder_, error.message());
  chmod(folder_.c_str(), 0700);  // it holds code that this user's programs run
  static std::atomic<int> count{0};
  const std::string path = PathOf(key);
  const std::string part = absl::StrCat(path, ".", getpid(), ".", count++);
  {
    std::ofstream file(part, std::ios::binary);
    file << Header(key, content) << key << content;
    file.close();
    if (!file) {
      const std::string why = std::generic_category().message(errno);
      std::remove(part.c_str());
      return ReportNotStored(folder_, why);
    }
  }
  // Atomic: a reader sees the old file or the new one.
  if (std::rename(part.c_str(), path.c_str()) != 0) std::remove(part.c_str());
}

}  // namespace mtf::cuda
