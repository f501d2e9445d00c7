// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/fusion/map_batch.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "backends/cuda/codegen/kernel_text.h"
#include "backends/cuda/codegen/kernel_writer.h"
#include "backends/cuda/fusion/group_dataflow.h"
#include "mtf/check.h"
#include "mtf/status.h"

namespace mtf::cuda {
namespace {

constexpr int kThreads = 256;
// Packs that a thread reads before it computes: enough to have several reads in
// flight, within its registers.
constexpr int kMaxShares = 4;
constexpr int kPacksAtOnce = 8;

bool IsNumber(const BoundValue& value, int64_t elements) {
  return value.elements() == 1 && elements != 1;
}

// Writes the text of a section, which uses the variables `at` (pointers),
// `elements` and `block`. Sections with equal texts share a case of the kernel.
class SectionWriter {
 public:
  SectionWriter(const std::vector<Binding>& members,
                const GroupDataflow& dataflow, RowText& rows)
      : members_(members),
        dataflow_(dataflow),
        rows_(rows),
        elements_(members[0].results[0].elements()) {
    FindPack();
    for (const BoundValue& input : dataflow.inputs) {
      pointers_.push_back(input.data);
    }
    for (int i : Stored()) pointers_.push_back(members[i].results[0].data);
    Write();
  }

  const std::string& text() const { return text_; }
  const std::vector<void*>& pointers() const { return pointers_; }
  int64_t elements() const { return elements_; }
  int64_t blocks() const {
    const int64_t segment = int64_t{kThreads} * shares_ * pack_;
    return (elements_ + segment - 1) / segment;
  }

 private:
  std::vector<int> Stored() const {
    std::vector<int> stored;
    for (size_t i = 0; i < members_.size(); ++i) {
      if (dataflow_.stored[i]) stored.push_back(static_cast<int>(i));
    }
    return stored;
  }
  DType DTypeOf(int member) const {
    return members_[member].results[0].dtype();
  }
  std::string PackType(DType dtype) const {
    return absl::StrCat("Pack<", StorageType(dtype), ", ", pack_, ">");
  }
  template <class... Text>
  void Line(int depth, const Text&... text) {
    absl::StrAppend(&text_, std::string(2 * depth, ' '), text..., "\n");
  }

  // Chooses the pack of neighbouring elements and the packs per thread.
  void FindPack() {
    int64_t size = 2;
    uintptr_t addresses = 0;
    int packs = 0;
    const auto see = [&](const BoundValue& value) {
      if (IsNumber(value, elements_)) return;
      size = std::max(size, DTypeSize(value.dtype()));
      addresses |= reinterpret_cast<uintptr_t>(value.data);
    };
    for (const BoundValue& input : dataflow_.inputs) {
      see(input);
      packs += IsNumber(input, elements_) ? 0 : 1;
    }
    for (int i : Stored()) see(members_[i].results[0]);
    pack_ = addresses % 16 == 0 ? static_cast<int>(16 / size) : 1;
    shares_ = std::clamp(kPacksAtOnce / std::max(packs, 1), 1, kMaxShares);
  }

  // Computes element `j` of a pack, or of a shorter rest if not `full_pack`.
  void WriteElement(int depth, bool full_pack) {
    for (size_t i = 0; i < dataflow_.inputs.size(); ++i) {
      const BoundValue& input = dataflow_.inputs[i];
      if (IsNumber(input, elements_)) continue;
      Line(depth, "const ", RegisterType(input.dtype()), " x", i, " = Value(",
           full_pack ? absl::StrCat("pack", i, ".at[j]")
                     : absl::StrCat("in", i, "[e + j]"),
           ");");
    }
    for (size_t i = 0; i < members_.size(); ++i) {
      std::vector<std::string> names;
      std::vector<DType> dtypes;
      for (const GroupDataflow::Source& source : dataflow_.sources[i]) {
        const bool made = source.member >= 0;
        names.push_back(made ? absl::StrCat("m", source.member)
                             : absl::StrCat("x", source.input));
        dtypes.push_back(made ? DTypeOf(source.member)
                              : dataflow_.inputs[source.input].dtype());
      }
      const StepText steps =
          WriteSteps(ExpressionOf(members_[i].instruction()), names, dtypes,
                     absl::StrCat("s", i, "_"), std::string(2 * depth, ' '),
                     rows_, [](const std::string&) -> std::string {
                       MTF_CHECK(false) << "section not found in its batch";
                       return "";
                     });
      text_ += steps.statements;
      Line(depth, "const ", RegisterType(DTypeOf(static_cast<int>(i))), " m", i,
           " = ", steps.result, ";");
      if (!dataflow_.stored[i]) {
        Line(depth, "(void)m", i, ";");
        continue;
      }
      Line(depth, "Put(",
           full_pack ? absl::StrCat("to", i, ".at[j]")
                     : absl::StrCat("out", i, "[e + j]"),
           ", m", i, ");");
    }
  }

  void Write() {
    int pointer = 0;
    for (size_t i = 0; i < dataflow_.inputs.size(); ++i) {
      const BoundValue& input = dataflow_.inputs[i];
      const absl::string_view type = StorageType(input.dtype());
      Line(3, "const ", type, "* in", i, " = (const ", type, "*)at[", pointer++,
           "];");
      if (!IsNumber(input, elements_)) continue;
      Line(3, "const ", RegisterType(input.dtype()), " x", i, " = Value(*in", i,
           ");");
    }
    for (int i : Stored()) {
      const absl::string_view type = StorageType(DTypeOf(i));
      Line(3, type, "* out", i, " = (", type, "*)at[", pointer++, "];");
    }
    Line(3, "const i64 first = block * ", int64_t{kThreads} * shares_ * pack_,
         ";");
    Line(0, "#pragma unroll");
    Line(3, "for (int share = 0; share < ", shares_, "; ++share) {");
    Line(4, "const i64 e = first + ((i64)share * ", kThreads,
         " + threadIdx.x) * ", pack_, ";");
    Line(4, "if (e + ", pack_, " <= elements) {");
    for (size_t i = 0; i < dataflow_.inputs.size(); ++i) {
      const BoundValue& input = dataflow_.inputs[i];
      if (IsNumber(input, elements_)) continue;
      const std::string type = PackType(input.dtype());
      Line(5, "const ", type, " pack", i, " = *(const ", type, "*)(in", i,
           " + e);");
    }
    for (int i : Stored()) Line(5, PackType(DTypeOf(i)), " to", i, ";");
    Line(0, "#pragma unroll");
    Line(5, "for (int j = 0; j < ", pack_, "; ++j) {");
    WriteElement(6, /*full_pack=*/true);
    Line(5, "}");
    for (int i : Stored()) {
      Line(5, "Store((", PackType(DTypeOf(i)), "*)(out", i, " + e), to", i,
           ");");
    }
    Line(4, "} else {");
    Line(5, "for (int j = 0; e + j < elements; ++j) {");
    WriteElement(6, /*full_pack=*/false);
    Line(5, "}");
    Line(4, "}");
    Line(3, "}");
  }

  const std::vector<Binding>& members_;
  const GroupDataflow& dataflow_;
  RowText& rows_;
  int64_t elements_;
  int pack_ = 1, shares_ = 1;
  std::string text_;
  std::vector<void*> pointers_;
};

// The data of a section besides its text.
struct Section {
  int kind = 0;  // index of its text
  std::vector<void*> pointers;
  int64_t elements = 0, blocks = 0;
};

// Whether a section accesses memory that another one writes. Sections run in
// any order, so such accesses are races.
bool SectionsOverlap(const std::vector<Section>& sections,
                     const absl::flat_hash_map<const void*, int>& written_by) {
  for (size_t s = 0; s < sections.size(); ++s) {
    for (void* pointer : sections[s].pointers) {
      const auto writer = written_by.find(pointer);
      if (writer != written_by.end() && writer->second != static_cast<int>(s)) {
        return true;
      }
    }
  }
  return false;
}

// Records of (first block, kind, elements, pointers).
std::vector<int64_t> TableOf(const std::vector<Section>& sections,
                             size_t most_pointers) {
  std::vector<int64_t> table;
  int64_t blocks = 0;
  for (const Section& section : sections) {
    if (section.elements == 0) continue;
    table.push_back(blocks);
    table.push_back(section.kind);
    table.push_back(section.elements);
    for (size_t i = 0; i < most_pointers; ++i) {
      table.push_back(i < section.pointers.size()
                          ? static_cast<int64_t>(
                                reinterpret_cast<intptr_t>(section.pointers[i]))
                          : 0);
    }
    blocks += section.blocks;
  }
  return table;
}

}  // namespace

std::optional<MapBatchSource> WriteMapBatch(const MapGroup& group,
                                            absl::Span<const Binding> members) {
  // No section may write memory that another one accesses.
  if (!GroupDataflow::Of(members).StoresAreSafe(members)) return std::nullopt;
  KernelWriter writer("map_batch", kThreads);
  absl::flat_hash_map<std::string, int> kinds;
  std::vector<std::string> bodies;
  std::vector<Section> sections;
  absl::flat_hash_map<const void*, int> written_by;
  size_t most_pointers = 0;
  int64_t blocks = 0, used = 0;
  absl::flat_hash_map<int, const Binding*> binding_of;  // by instruction
  for (const Binding& member : members) binding_of[member.index] = &member;
  for (const std::vector<int>& section : group.sections) {
    std::vector<Binding> own;
    for (int member : section) own.push_back(*binding_of.at(member));
    // No section reads a result of another section, so the data flow of a
    // section stores the same results as that of the batch, which was checked
    // above.
    const GroupDataflow dataflow = GroupDataflow::Of(own);
    for (size_t i = 0; i < own.size(); ++i) {
      if (!dataflow.stored[i]) continue;
      written_by.emplace(own[i].results[0].data,
                         static_cast<int>(sections.size()));
    }
    const SectionWriter written(own, dataflow, writer.rows());
    const auto [it, is_new] =
        kinds.emplace(written.text(), static_cast<int>(bodies.size()));
    if (is_new) bodies.push_back(written.text());
    sections.push_back(
        {it->second, written.pointers(), written.elements(), written.blocks()});
    most_pointers = std::max(most_pointers, written.pointers().size());
    blocks += written.blocks();
    used += written.elements() > 0 ? 1 : 0;
  }
  if (used == 0 || SectionsOverlap(sections, written_by)) return std::nullopt;
  const size_t record = 3 + most_pointers;
  MapBatchSource written;
  written.table = TableOf(sections, most_pointers);
  written.shape = {.blocks = blocks, .threads = kThreads};
  // Finds the last section that begins at or before this block.
  const std::string table = writer.ReadAs(nullptr, "i64", 0);
  writer.Add("  int low = 0, high = ", used,
             ";\n  while (high - low > 1) {\n"
             "    const int middle = (low + high) / 2;\n    if (",
             table, "[(i64)middle * ", record,
             "] <= (i64)blockIdx.x) {\n      low = middle;\n    } else {\n"
             "      high = middle;\n    }\n  }\n  const i64* section = ",
             table, " + (i64)low * ", record,
             ";\n  const i64 elements = section[2];\n"
             "  const i64* at = section + 3;\n"
             "  const i64 block = (i64)blockIdx.x - section[0];\n"
             "  switch (section[1]) {\n");
  for (size_t kind = 0; kind < bodies.size(); ++kind) {
    writer.Add("    case ", kind, ": {\n", bodies[kind],
               "      break;\n    }\n");
  }
  writer.Add("  }\n");
  written.source = writer.Source();
  return written;
}

namespace {

// Launches that own the table they read.
class MapBatchKernel : public LaunchSequence {
 public:
  MapBatchKernel(Runtime& runtime, Launch launch, void* table)
      : LaunchSequence(runtime, {std::move(launch)}),
        runtime_(runtime),
        table_(table) {}
  ~MapBatchKernel() override { runtime_.Free(table_); }

 private:
  Runtime& runtime_;
  void* table_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> PrepareMapBatch(
    Runtime& runtime, const MapGroup& group,
    absl::Span<const Binding> members) {
  const std::optional<MapBatchSource> written = WriteMapBatch(group, members);
  if (!written.has_value()) return nullptr;
  MTF_ASSIGN_OR_RETURN(Function * function, runtime.Compile(written->source));
  const int64_t bytes =
      static_cast<int64_t>(written->table.size() * sizeof(int64_t));
  MTF_ASSIGN_OR_RETURN(void* table, runtime.Allocate(bytes));
  runtime.CopyToDevice(table, written->table.data(), bytes);
  Launch launch{function, written->shape, {reinterpret_cast<uintptr_t>(table)}};
  return std::make_unique<MapBatchKernel>(runtime, std::move(launch), table);
}

}  // namespace mtf::cuda
