// SPDX-License-Identifier: Apache-2.0
#include "backends/communicators/mpi/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "backends/communicators/mpi/mpi_call.h"

namespace mtf {
namespace {

// Sent by the first rank to the others. The file begins with the key, which
// distinguishes it from a file of the same name in another container.
struct Invitation {
  char name[64] = "";
  uint64_t key = 0;  // 0: the allocation failed
};

void* Map(int file, int64_t bytes) {
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

// Creates and maps a shared memory file with all of its bytes committed; null
// on failure.
void* Create(Invitation& invitation, int64_t bytes) {
  std::random_device random;
  uint64_t key = 0;
  while (key == 0) key = (uint64_t{random()} << 32) | random();
  const std::string name = absl::StrCat("/mtf_", getpid(), "_", absl::Hex(key));
  const int file = shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
  if (file < 0) return nullptr;
  void* memory = nullptr;
  if (posix_fallocate(file, 0, bytes) == 0) memory = Map(file, bytes);
  close(file);
  if (memory == nullptr) {
    shm_unlink(name.c_str());
    return nullptr;
  }
  std::memcpy(memory, &key, sizeof(key));
  name.copy(invitation.name, sizeof(invitation.name) - 1);
  invitation.key = key;
  return memory;
}

void* Open(const Invitation& invitation, int64_t bytes) {
  const int file = shm_open(invitation.name, O_RDWR, 0);
  if (file < 0) return nullptr;
  void* memory = lseek(file, 0, SEEK_END) == bytes ? Map(file, bytes) : nullptr;
  close(file);
  uint64_t key = 0;
  if (memory != nullptr) std::memcpy(&key, memory, sizeof(key));
  if (memory != nullptr && key != invitation.key) {
    munmap(memory, bytes);
    return nullptr;
  }
  return memory;
}

}  // namespace

absl::StatusOr<void*> MakeSharedMemory(MPI_Comm comm, int64_t bytes) {
  int index = 0;
  MTF_RETURN_IF_MPI_ERROR(MPI_Comm_rank(comm, &index));
  Invitation invitation;
  void* memory = nullptr;
  if (index == 0) memory = Create(invitation, bytes);
  MTF_RETURN_IF_MPI_ERROR(
      MPI_Bcast(&invitation, sizeof(invitation), MPI_BYTE, 0, comm));
  if (index != 0 && invitation.key != 0) memory = Open(invitation, bytes);
  int all = memory != nullptr;
  MTF_RETURN_IF_MPI_ERROR(
      MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, comm));
  // All ranks have opened it: unlink it, so that no file is left over however
  // the job ends.
  if (index == 0 && invitation.key != 0) {
    shm_unlink(invitation.name);
    std::memset(memory, 0, sizeof(invitation.key));
  }
  // No rank may use the memory before the key is cleared.
  MTF_RETURN_IF_MPI_ERROR(MPI_Barrier(comm));
  if (all) return memory;
  if (memory != nullptr) munmap(memory, bytes);
  return nullptr;
}

}  // namespace mtf
