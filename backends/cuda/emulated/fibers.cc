// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/emulated/fibers.h"

#include <sys/mman.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "mtf/check.h"

// Saves the callee-saved registers and the stack pointer to *save, and resumes
// the context saved in `load`.
extern "C" void mtf_switch_fiber(void** save, void* load);

#if defined(__x86_64__)
asm(R"(
.text
.globl mtf_switch_fiber
.hidden mtf_switch_fiber
.type mtf_switch_fiber, @function
mtf_switch_fiber:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size mtf_switch_fiber, .-mtf_switch_fiber
)");
#elif defined(__aarch64__)
asm(R"(
.text
.globl mtf_switch_fiber
.hidden mtf_switch_fiber
.type mtf_switch_fiber, %function
mtf_switch_fiber:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size mtf_switch_fiber, .-mtf_switch_fiber
)");
#else
#error "no switch of fibers for this processor"
#endif

// The race detector cannot follow fibers, which leave functions in another
// order than they entered them.
#if defined(__SANITIZE_THREAD__)
#define MTF_SWITCHES __attribute__((no_sanitize("thread")))
#else
#define MTF_SWITCHES
#endif

namespace mtf::cuda {
namespace {

constexpr int64_t kStackBytes = 64 << 10;
constexpr int64_t kGuardBytes = 64 << 10;  // a multiple of any page size
constexpr int64_t kAllBytes = kGuardBytes + kStackBytes;
constexpr int kWarp = 32;

// The runner of this thread, for callbacks from kernels.
thread_local BlockRunner* running = nullptr;

}  // namespace

BlockRunner::~BlockRunner() {
  for (Fiber& fiber : fibers_) munmap(fiber.stack - kGuardBytes, kAllBytes);
}

void BlockRunner::Prepare(Fiber& fiber) {
  if (fiber.stack == nullptr) {
    void* stack = mmap(nullptr, kAllBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    MTF_CHECK(stack != MAP_FAILED) << "no memory for the stack of a fiber";
    // A stack overflow faults instead of overwriting other memory.
    mprotect(stack, kGuardBytes, PROT_NONE);
    fiber.stack = static_cast<char*>(stack) + kGuardBytes;
  }
  void** top = reinterpret_cast<void**>(fiber.stack + kStackBytes);
#if defined(__x86_64__)
  // The stack as after a call: a return address, misaligned by one word.
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(&BlockRunner::Enter);
  top -= 6;
#else
  top -= 20;
  top[11] = reinterpret_cast<void*>(&BlockRunner::Enter);  // x30
#endif
  fiber.saved = top;
  fiber.state = State::kReady;
}

MTF_SWITCHES void BlockRunner::Enter() {
  BlockRunner* runner = running;
  runner->kernel_->run_thread(runner->arguments_);
  runner->Yield(State::kDone);
}

MTF_SWITCHES void BlockRunner::Yield(State state) {
  Fiber& fiber = fibers_[current_];
  fiber.state = state;
  mtf_switch_fiber(&fiber.saved, scheduler_);
}

MTF_SWITCHES void BlockRunner::SyncThreads() {
  running->Yield(State::kAtBarrier);
}

MTF_SWITCHES uint64_t BlockRunner::Shuffle(uint64_t value, int lane) {
  BlockRunner* runner = running;
  const int warp = runner->current_ / kWarp * kWarp;
  runner->offered_[runner->current_] = value;
  runner->Yield(State::kAtShuffle);
  return runner->taken_[warp + lane];
}

bool BlockRunner::Release(int threads) {
  bool released = false;
  int waiting = 0;
  for (int warp = 0; warp < threads; warp += kWarp) {
    int shuffling = 0;
    for (int i = warp; i < warp + kWarp; ++i) {
      shuffling += fibers_[i].state == State::kAtShuffle;
      waiting += fibers_[i].state == State::kAtBarrier;
    }
    if (shuffling < kWarp) continue;
    for (int i = warp; i < warp + kWarp; ++i) {
      taken_[i] = offered_[i];
      fibers_[i].state = State::kReady;
    }
    released = true;
  }
  if (waiting == threads) {
    for (int i = 0; i < threads; ++i) fibers_[i].state = State::kReady;
    released = true;
  }
  return released;
}

absl::Status BlockRunner::DeadlockError(int threads) const {
  int count[4] = {}, first[4] = {-1, -1, -1, -1};
  for (int i = 0; i < threads; ++i) {
    const int state = static_cast<int>(fibers_[i].state);
    if (count[state]++ == 0) first[state] = i;
  }
  const auto threads_at = [&](State state, absl::string_view what) {
    const int s = static_cast<int>(state);
    return count[s] == 0 ? ""
                         : absl::StrCat("\n  ", count[s], " ", what,
                                        ", first thread ", first[s]);
  };
  return absl::InternalError(
      absl::StrCat("deadlock of the threads of a block, ", threads, " in all",
                   threads_at(State::kAtBarrier, "at a barrier"),
                   threads_at(State::kAtShuffle, "at a shuffle"),
                   threads_at(State::kDone, "at the end")));
}

MTF_SWITCHES absl::Status BlockRunner::Run(const EmulatedKernel& kernel,
                                           void* const* arguments, int threads,
                                           bool backwards) {
  static const EmulatedCalls calls = {&BlockRunner::SyncThreads,
                                      &BlockRunner::Shuffle};
  kernel_ = &kernel;
  arguments_ = arguments;
  *kernel.calls = &calls;
  while (static_cast<int>(fibers_.size()) < threads) fibers_.emplace_back();
  offered_.resize(fibers_.size());
  taken_.resize(fibers_.size());
  for (int i = 0; i < threads; ++i) Prepare(fibers_[i]);
  BlockRunner* const before = running;
  running = this;
  absl::Status status;
  while (status.ok()) {
    int done = 0;
    for (int i = 0; i < threads; ++i) {
      current_ = backwards ? threads - 1 - i : i;
      Fiber& fiber = fibers_[current_];
      if (fiber.state == State::kReady) {
        *kernel.thread = static_cast<unsigned>(current_);
        mtf_switch_fiber(&scheduler_, fiber.saved);
      }
      done += fiber.state == State::kDone;
    }
    if (done == threads) break;
    if (!Release(threads)) status = DeadlockError(threads);
  }
  running = before;
  return status;
}

}  // namespace mtf::cuda
