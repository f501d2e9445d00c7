// SPDX-License-Identifier: Apache-2.0
//
// Rates of saving and restoring a checkpoint, beside the same bytes by dd on
// the same disk, and the time for which an asynchronous Save stops training,
// beside a memcpy of the same bytes.
//
//   checkpoint_benchmark [MiB [folder [ranks]]]
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

constexpr int kRepeats = 3;

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

void Report(const std::string& what, double mebibytes, double seconds) {
  std::cout << absl::StrFormat("%-28s %8.3f s  %8.0f MiB/s\n", what, seconds,
                               mebibytes / seconds);
}

// Each number is the best of kRepeats.
struct CheckpointTimes {
  double dd_write = 1e9, save = 1e9, stall = 1e9, copy = 1e9, dd_read = 1e9,
         restore = 1e9;
};

absl::Status Measure(Session& session, int mebibytes, const std::string& folder,
                     CheckpointTimes& best) {
  const std::string file = absl::StrCat(folder, "/dd");
  std::vector<char> from(size_t{1} << 20, 'x'),
      to(size_t{mebibytes * 1ul} << 20);
  std::memset(to.data(), 1, to.size());
  for (int i = 0; i < kRepeats; ++i) {
    best.dd_write =
        std::min(best.dd_write, Seconds([&] {
                   return Command(absl::StrCat("dd if=/dev/zero of=", file,
                                               " bs=1M count=", mebibytes,
                                               " conv=fsync status=none"));
                 }));
    best.dd_read =
        std::min(best.dd_read, Seconds([&] {
                   return Command(absl::StrCat(
                       "dd if=", file, " of=/dev/null bs=1M status=none"));
                 }));
    best.copy = std::min(best.copy, Seconds([&] {
                           // As Save, into memory that is new to the process.
                           std::vector<std::unique_ptr<char[]>> copies;
                           for (int block = 0; block < mebibytes; ++block) {
                             copies.emplace_back(new char[1 << 20]);
                             std::memcpy(copies.back().get(),
                                         to.data() + (size_t{1} << 20) * block,
                                         1 << 20);
                           }
                           return absl::OkStatus();
                         }));
    MTF_ASSIGN_OR_RETURN(
        const auto checkpointer,
        Checkpointer::Open(
            session, {.folder = absl::StrCat(folder, "/run"), .keep = 1}));
    MTF_RETURN_IF_ERROR(session.SetStep(session.step() + 1));
    double stall = 0;
    best.save = std::min(best.save, Seconds([&] {
                           stall =
                               Seconds([&] { return checkpointer->Save(); });
                           return checkpointer->Wait();
                         }));
    best.stall = std::min(best.stall, stall);
    best.restore =
        std::min(best.restore,
                 Seconds([&] { return checkpointer->Restore().status(); }));
    std::filesystem::remove(file);
  }
  return absl::OkStatus();
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
            << ranks << " ranks, best of " << kRepeats << "\n";
  Report("dd, with fsync", mebibytes, best.dd_write);
  Report("save, durable", mebibytes, best.save);
  Report("dd, read (cached)", mebibytes, best.dd_read);
  Report("restore (cached)", mebibytes, best.restore);
  Report("memcpy to new memory", mebibytes, best.copy);
  Report("stall of an async save", mebibytes, best.stall);
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
