// SPDX-License-Identifier: Apache-2.0
//
// Rates of saving and restoring a checkpoint, beside the same bytes by dd on
// the same disk in the same run, and the time for which an asynchronous Save
// stops training, beside a memcpy of the same bytes.
//
//   checkpoint_benchmark [MiB [folder [ranks]]]         ranks are threads
//   mtfrun -n RANKS checkpoint_benchmark [MiB [folder]]  ranks are processes
//
// A checkpoint of R ranks has R files of values. So R processes of dd run at
// once, one for each file, and each ends with fsync. dd copies from /dev/zero,
// through one buffer of 1 MiB that stays in the cache of the processor, and
// computes no checksum. "save" is the time from the call of Save until Wait
// returns: the copy to host memory, all checksums and files, the manifest, and
// the syncs of files and folders. Old files are removed outside of both times.
//
// To read, R processes of dd copy to /dev/null, again through small buffers. A
// checkpoint ends in memory, so the same bytes are also read to memory that has
// been written before, as variables have, and to new memory, as a copy that is
// kept beside the variables.
//
// "from the disk" means that the kernel has been asked to drop the files from
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
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "backends/communicator.h"
#include "backends/communicators/launcher.h"
#include "mtf/status.h"
#include "ops/constant.h"
#include "ops/variable.h"
#include "train/checkpoint/checkpoint.h"

namespace mtf::train {
namespace {

constexpr int kRepeats = 7;
constexpr int64_t kPiece = 1 << 20;

// What one run measures.
struct BenchmarkJob {
  int mebibytes = 256;
  std::string folder = ".";
  int ranks = 1;
  bool is_primary = true;  // this process measures

  int mebibytes_per_file() const { return mebibytes / ranks; }
  std::string DdFile(int rank) const {
    return absl::StrCat(folder, "/dd_", rank);
  }
};

double Seconds(const std::function<absl::Status()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  const absl::Status status = work();
  if (!status.ok()) {
    std::cerr << ErrorText(status) << std::endl;
    AbortAllRanks(1);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

// Runs the commands of all ranks at once, and waits for them.
absl::Status RunAtOnce(
    const BenchmarkJob& job,
    const std::function<std::string(int rank)>& command_of_rank) {
  std::string script, waits;
  for (int rank = 0; rank < job.ranks; ++rank) {
    absl::StrAppend(&script, command_of_rank(rank), " & p", rank, "=$!; ");
    absl::StrAppend(&waits, rank == 0 ? "" : " && ", "wait $p", rank);
  }
  script += waits;
  if (std::system(script.c_str()) == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("failed: ", script));
}

// The times of kRepeats repeats.
class Times {
 public:
  void Add(double seconds) { seconds_.push_back(seconds); }
  double Best() const { return *std::min_element(begin(), end()); }
  double Median() const {
    std::vector<double> sorted = seconds_;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }

 private:
  std::vector<double>::const_iterator begin() const { return seconds_.begin(); }
  std::vector<double>::const_iterator end() const { return seconds_.end(); }
  std::vector<double> seconds_;
};

struct CheckpointTimes {
  Times dd_write, save, stall, copy;
  Times dd_read, read_warm, read_new, in_place, staged;  // cached
  Times dd_disk, in_place_disk;
};

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

// Reads the files of dd to memory, each in a thread.
absl::Status ReadFiles(const BenchmarkJob& job, char* to) {
  const int64_t bytes = job.mebibytes_per_file() * kPiece;
  std::vector<absl::Status> read(job.ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < job.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      read[rank] = ReadAll(job.DdFile(rank), to + rank * bytes, bytes);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : read) MTF_RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

// A memcpy to memory that is new to the process, as Save does.
absl::Status CopyAll(const std::vector<char>& from) {
  std::vector<std::unique_ptr<char[]>> copies;
  for (size_t at = 0; at < from.size(); at += kPiece) {
    copies.emplace_back(new char[kPiece]);
    std::memcpy(copies.back().get(), from.data() + at, kPiece);
  }
  return absl::OkStatus();
}

// The same bytes without the library.
void MeasurePlain(const BenchmarkJob& job, std::vector<char>& memory,
                  CheckpointTimes& times) {
  const auto read = [&] {
    return RunAtOnce(job, [&](int rank) {
      return absl::StrCat("dd if=", job.DdFile(rank),
                          " of=/dev/null bs=1M status=none");
    });
  };
  times.dd_write.Add(Seconds([&] {
    return RunAtOnce(job, [&](int rank) {
      return absl::StrCat("dd if=/dev/zero of=", job.DdFile(rank),
                          " bs=1M count=", job.mebibytes_per_file(),
                          " conv=fsync status=none");
    });
  }));
  times.dd_read.Add(Seconds(read));
  times.read_warm.Add(Seconds([&] { return ReadFiles(job, memory.data()); }));
  times.read_new.Add(Seconds([&] {
    const std::unique_ptr<char[]> to(new char[memory.size()]);  // not set
    return ReadFiles(job, to.get());
  }));
  DropFromCache(job.folder);
  times.dd_disk.Add(Seconds(read));
  times.copy.Add(Seconds([&] { return CopyAll(memory); }));
  for (int rank = 0; rank < job.ranks; ++rank) {
    std::filesystem::remove(job.DdFile(rank));
  }
}

// Collective.
absl::Status MeasureCheckpoint(const BenchmarkJob& job, Session& session,
                               CheckpointTimes& times) {
  MTF_ASSIGN_OR_RETURN(
      const auto checkpointer,
      Checkpointer::Open(
          session, {.folder = absl::StrCat(job.folder, "/run"), .keep = 0}));
  MTF_RETURN_IF_ERROR(session.SetStep(session.step() + 1));
  MTF_RETURN_IF_ERROR(session.Agree(absl::OkStatus()));  // all begin together
  double stall = 0;
  times.save.Add(Seconds([&] {
    stall = Seconds([&] { return checkpointer->Save(); });
    return checkpointer->Wait();
  }));
  times.stall.Add(stall);
  const auto restore = [&](bool in_place) {
    return Seconds(
        [&] { return checkpointer->Restore({.in_place = in_place}).status(); });
  };
  times.in_place.Add(restore(true));
  times.staged.Add(restore(false));
  if (job.is_primary) DropFromCache(job.folder);
  MTF_RETURN_IF_ERROR(session.Agree(absl::OkStatus()));
  times.in_place_disk.Add(restore(true));
  return absl::OkStatus();
}

// Waits without using the processor, as ranks that wait for a collective might.
void WaitForFile(const std::string& path) {
  while (!std::filesystem::exists(path)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

absl::Status Measure(const BenchmarkJob& job, Session& session,
                     CheckpointTimes& times) {
  std::vector<char> memory;
  if (job.is_primary) memory.assign(job.mebibytes * kPiece, 'x');
  for (int i = 0; i < kRepeats; ++i) {
    const std::string turn = absl::StrCat(job.folder, "/turn_", i);
    if (job.is_primary) {
      MeasurePlain(job, memory, times);
      std::filesystem::create_directory(turn);
    }
    WaitForFile(turn);
    MTF_RETURN_IF_ERROR(MeasureCheckpoint(job, session, times));
    if (job.is_primary) {
      std::filesystem::remove_all(absl::StrCat(job.folder, "/run"));
    }
    MTF_RETURN_IF_ERROR(session.Agree(absl::OkStatus()));
  }
  return absl::OkStatus();
}

void ReportAll(const BenchmarkJob& job, const CheckpointTimes& times) {
  const auto report = [&](const std::string& what, const Times& time,
                          const Times& beside) {
    std::cout << absl::StrFormat(
        "%-34s %8.3f s  %8.0f MiB/s  %5.2f  %8.3f s  %5.2f\n", what,
        time.Best(), job.mebibytes / time.Best(), beside.Best() / time.Best(),
        time.Median(), beside.Median() / time.Median());
  };
  std::cout << job.mebibytes << " MiB in " << job.ranks << " files, "
            << kRepeats
            << " repeats; the best, its rate, its rate relative to dd or "
               "memcpy; the median, its relative rate\n";
  report("dd, with fsync", times.dd_write, times.dd_write);
  report("save, durable", times.save, times.dd_write);
  report("dd to /dev/null, from the disk", times.dd_disk, times.dd_disk);
  report("restore in place, from the disk", times.in_place_disk, times.dd_disk);
  report("dd to /dev/null, cached", times.dd_read, times.dd_read);
  report("read to warm memory, cached", times.read_warm, times.dd_read);
  report("read to new memory, cached", times.read_new, times.dd_read);
  report("restore in place, cached", times.in_place, times.dd_read);
  report("restore with a copy, cached", times.staged, times.dd_read);
  report("memcpy to new memory", times.copy, times.copy);
  report("stall of an async save", times.stall, times.copy);
}

absl::Status RunBenchmark(BenchmarkJob job) {
  constexpr int64_t kVariables = 16;
  job.mebibytes -= job.mebibytes % job.ranks;
  Graph graph;
  for (int64_t i = 0; i < kVariables; ++i) {
    const int64_t rows = int64_t{job.mebibytes} * (1 << 18) / kVariables / 1024;
    Variable(graph, absl::StrCat("w", i),
             Ones(graph, kFloat32, {{"rows", rows}, {"columns", 1024}}));
  }
  MTF_ASSIGN_OR_RETURN(
      const auto session,
      Session::Create(graph, absl::StrCat("a:", job.ranks), "rows:a"));
  MTF_RETURN_IF_ERROR(session->Initialize());
  job.is_primary = session->is_primary();
  absl::StrAppend(&job.folder, "/checkpoint_benchmark");
  if (job.is_primary) {
    std::filesystem::remove_all(job.folder);
    std::filesystem::create_directories(job.folder);
  }
  MTF_RETURN_IF_ERROR(session->Agree(absl::OkStatus()));
  CheckpointTimes times;
  const absl::Status status = Measure(job, *session, times);
  if (!job.is_primary) return status;
  std::filesystem::remove_all(job.folder);
  MTF_RETURN_IF_ERROR(status);
  ReportAll(job, times);
  return absl::OkStatus();
}

}  // namespace
}  // namespace mtf::train

int main(int argc, char** argv) {
  mtf::train::BenchmarkJob job;
  job.ranks = mtf::DetectLauncher().size;
  if (argc > 2) job.folder = argv[2];
  if ((argc > 1 && !absl::SimpleAtoi(argv[1], &job.mebibytes)) ||
      (argc > 3 && !absl::SimpleAtoi(argv[3], &job.ranks)) || job.ranks < 1 ||
      job.mebibytes < 16 || job.mebibytes < job.ranks || argc > 4) {
    std::cerr << "usage: checkpoint_benchmark [MiB, at least 16 [folder "
                 "[ranks]]]\n";
    return 2;
  }
  const absl::Status status = mtf::train::RunBenchmark(job);
  if (status.ok()) return 0;
  std::cerr << mtf::ErrorText(status) << std::endl;
  mtf::AbortAllRanks(1);
}
