// SPDX-License-Identifier: Apache-2.0
//
// Rates of saving and restoring a checkpoint, beside the same bytes by dd on
// the same disk in the same run, and the time for which an asynchronous Save
// stops training, beside a memcpy of the same bytes.
//
//   checkpoint_benchmark [MiB [folder [ranks]]]
//
// dd reads to /dev/null, through one buffer of 1 MiB that stays in the cache of
// the processor. A checkpoint ends in memory, so the same bytes are also read
// to memory that has been written before, as variables have, and to new memory,
// as a copy that is kept beside the variables.
//
// "from the disk" means that the kernel has been asked to drop the file from
// its cache; on a file system in memory it cannot.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "mtf/status.h"
#include "ops/constant.h"
#include "ops/variable.h"
#include "train/checkpoint/checkpoint.h"

namespace mtf::train {
namespace {

constexpr int kRepeats = 5;

double Seconds(const std::function<absl::Status()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  const absl::Status status = work();
  if (!status.ok()) {
    std::cerr << ErrorText(status) << std::endl;
    std::exit(1);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

absl::Status Command(const std::string& command) {
  if (std::system(command.c_str()) == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("failed: ", command));
}

// The best of kRepeats.
class BestTime {
 public:
  void Add(double seconds) { seconds_ = std::min(seconds_, seconds); }
  double seconds() const { return seconds_; }

 private:
  double seconds_ = 1e9;
};

struct CheckpointTimes {
  BestTime dd_write, save, stall, copy;
  BestTime dd_read, read_warm, read_new, in_place, staged;  // cached
  BestTime dd_disk, in_place_disk;
};

constexpr int64_t kPiece = 1 << 20;

// Asks the kernel to drop the files in a folder from its cache.
void DropFromCache(const std::string& folder) {
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const int file = open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) continue;
    (void)posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    close(file);
  }
}

absl::Status ReadAll(const std::string& path, char* to, int64_t bytes) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return absl::InternalError("cannot open " + path);
  absl::Status status;
  for (int64_t at = 0; at < bytes; at += kPiece) {
    if (pread(file, to + at, kPiece, at) != kPiece) {
      status = absl::InternalError("cannot read " + path);
    }
  }
  close(file);
  return status;
}

// A memcpy to memory that is new to the process, as Save does.
absl::Status CopyAll(const char* from, int mebibytes) {
  std::vector<std::unique_ptr<char[]>> copies;
  for (int i = 0; i < mebibytes; ++i) {
    copies.emplace_back(new char[kPiece]);
    std::memcpy(copies.back().get(), from + i * kPiece, kPiece);
  }
  return absl::OkStatus();
}

// The same bytes without the library.
void MeasurePlain(int mebibytes, const std::string& folder,
                  std::vector<char>& memory, CheckpointTimes& best) {
  const std::string file = absl::StrCat(folder, "/dd");
  const auto bytes = static_cast<int64_t>(memory.size());
  const std::string read =
      absl::StrCat("dd if=", file, " of=/dev/null bs=1M status=none");
  best.dd_write.Add(Seconds([&] {
    return Command(absl::StrCat("dd if=/dev/zero of=", file, " bs=1M count=",
                                mebibytes, " conv=fsync status=none"));
  }));
  best.dd_read.Add(Seconds([&] { return Command(read); }));
  best.read_warm.Add(
      Seconds([&] { return ReadAll(file, memory.data(), bytes); }));
  best.read_new.Add(Seconds([&] {
    const std::unique_ptr<char[]> to(new char[bytes]);  // not set
    return ReadAll(file, to.get(), bytes);
  }));
  DropFromCache(folder);
  best.dd_disk.Add(Seconds([&] { return Command(read); }));
  best.copy.Add(Seconds([&] { return CopyAll(memory.data(), mebibytes); }));
  std::filesystem::remove(file);
}

absl::Status MeasureCheckpoint(Session& session, const std::string& folder,
                               CheckpointTimes& best) {
  MTF_ASSIGN_OR_RETURN(
      const auto checkpointer,
      Checkpointer::Open(session,
                         {.folder = absl::StrCat(folder, "/run"), .keep = 1}));
  MTF_RETURN_IF_ERROR(session.SetStep(session.step() + 1));
  double stall = 0;
  best.save.Add(Seconds([&] {
    stall = Seconds([&] { return checkpointer->Save(); });
    return checkpointer->Wait();
  }));
  best.stall.Add(stall);
  const auto restore = [&](bool in_place) {
    return Seconds(
        [&] { return checkpointer->Restore({.in_place = in_place}).status(); });
  };
  best.in_place.Add(restore(true));
  best.staged.Add(restore(false));
  DropFromCache(folder);
  best.in_place_disk.Add(restore(true));
  return absl::OkStatus();
}

absl::Status Measure(Session& session, int mebibytes, const std::string& folder,
                     CheckpointTimes& best) {
  std::vector<char> memory(size_t{mebibytes * 1ul} << 20, 'x');
  for (int i = 0; i < kRepeats; ++i) {
    MeasurePlain(mebibytes, folder, memory, best);
    MTF_RETURN_IF_ERROR(MeasureCheckpoint(session, folder, best));
  }
  return absl::OkStatus();
}

void ReportAll(const CheckpointTimes& best, int mebibytes) {
  const auto report = [&](const std::string& what, const BestTime& time,
                          const BestTime& beside) {
    std::cout << absl::StrFormat("%-34s %8.3f s  %8.0f MiB/s  %5.2f\n", what,
                                 time.seconds(), mebibytes / time.seconds(),
                                 beside.seconds() / time.seconds());
  };
  report("dd, with fsync", best.dd_write, best.dd_write);
  report("save, durable", best.save, best.dd_write);
  report("dd to /dev/null, from the disk", best.dd_disk, best.dd_disk);
  report("restore in place, from the disk", best.in_place_disk, best.dd_disk);
  report("dd to /dev/null, cached", best.dd_read, best.dd_read);
  report("read to warm memory, cached", best.read_warm, best.dd_read);
  report("read to new memory, cached", best.read_new, best.dd_read);
  report("restore in place, cached", best.in_place, best.dd_read);
  report("restore with a copy, cached", best.staged, best.dd_read);
  report("memcpy to new memory", best.copy, best.copy);
  report("stall of an async save", best.stall, best.copy);
}

absl::Status Run(int mebibytes, const std::string& folder, int ranks) {
  constexpr int64_t kVariables = 16;
  Graph graph;
  for (int64_t i = 0; i < kVariables; ++i) {
    const int64_t rows = int64_t{mebibytes} * (1 << 18) / kVariables / 1024;
    Variable(graph, absl::StrCat("w", i),
             Ones(graph, kFloat32, {{"rows", rows}, {"columns", 1024}}));
  }
  MTF_ASSIGN_OR_RETURN(
      const auto session,
      Session::Create(graph, absl::StrCat("a:", ranks), "rows:a"));
  MTF_RETURN_IF_ERROR(session->Initialize());
  const std::string own = absl::StrCat(folder, "/checkpoint_benchmark");
  std::filesystem::create_directories(own);
  CheckpointTimes best;
  const absl::Status status = Measure(*session, mebibytes, own, best);
  std::filesystem::remove_all(own);
  MTF_RETURN_IF_ERROR(status);
  std::cout << mebibytes << " MiB in " << kVariables << " variables on "
            << ranks << " ranks, best of " << kRepeats
            << "; last: rate beside dd, or beside memcpy\n";
  ReportAll(best, mebibytes);
  return absl::OkStatus();
}

}  // namespace
}  // namespace mtf::train

int main(int argc, char** argv) {
  int mebibytes = 256, ranks = 1;
  const std::string folder = argc > 2 ? argv[2] : ".";
  if ((argc > 1 && !absl::SimpleAtoi(argv[1], &mebibytes)) ||
      (argc > 3 && !absl::SimpleAtoi(argv[3], &ranks)) || mebibytes < 16 ||
      ranks < 1 || argc > 4) {
    std::cerr << "usage: checkpoint_benchmark [MiB, at least 16 [folder "
                 "[ranks]]]\n";
    return 2;
  }
  const absl::Status status = mtf::train::Run(mebibytes, folder, ranks);
  if (!status.ok()) std::cerr << mtf::ErrorText(status) << std::endl;
  return status.ok() ? 0 : 1;
}
