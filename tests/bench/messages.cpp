// SPDX-License-Identifier: Apache-2.0
// Large protobuf messages: each row with what libprotobuf and the disk take by themselves, measured in the same run.
// Prints a JSON object a line.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cairn/cairn.hpp"
#include "cairn/handlers/proto.hpp"
#include "cairn/proto/auto_splitter.hpp"
#include "cairn/proto/chunked.pb.h"
#include "cairn/proto/chunked_file.hpp"

#include "base/internal/aligned_memory.hpp"
#include "bench/ceilings.hpp"
#include "bench/measure.hpp"
#include "bench/records.hpp"
#include "bench/report.hpp"
#include "messages.pb.h"

namespace cairn::bench {
namespace {

namespace fs = std::filesystem;

using google::protobuf::Message;

struct Sizes {
  Sizes() = default;

  fs::path directory;
  std::vector<std::string> rows;  ///< None: all.
  int tensors = 100;
  std::size_t tensor_mib = 31;
  int nodes = 1'000'000;
  std::size_t budget_mib = 1024;  ///< Of the saves and loads with less than the message.
  std::size_t limit_mib = 64;     ///< Of chunks in files.
  int chunks = 10'000;            ///< Of P5.
  int parts = 1'000;              ///< Of P9.
  std::size_t list_mib = 2290;    ///< Of P10.
  std::size_t records_mib = 1024;
  int rounds = 1;

  [[nodiscard]] bool has(std::string_view row) const {
    return rows.empty() || std::find(rows.begin(), rows.end(), row) != rows.end();
  }
};

Model make_model(const Sizes& sizes) {
  Model model;
  Noise noise;
  for (int i = 0; i < sizes.nodes; ++i) {
    Node& node = *model.add_nodes();
    node.set_name(fmt::format("model/layers/{}/attention/node", i));
    node.set_op("MatMul");
    (*node.mutable_attr())["T"] = "DT_FLOAT";
  }
  for (int i = 0; i < sizes.tensors; ++i) {
    Tensor& tensor = *model.add_tensors();
    tensor.set_name(fmt::format("tensor {}", i));
    tensor.mutable_content()->resize(sizes.tensor_mib * kMiB);
    noise.fill(*tensor.mutable_content());
  }
  return model;
}

/// The parts of a message, each by itself in memory that is there: how long libprotobuf takes for them.
class PartsAlone {
 public:
  explicit PartsAlone(const Model& model) {
    for (const Node& node : model.nodes()) {
      add(node);
    }
    nodes_ = parts_.size();
    for (const Tensor& tensor : model.tensors()) {
      add(tensor);
    }
    memory_.emplace(bytes());
    std::fill_n(memory_->data(), bytes(), std::byte{1});  // So that it is there.
  }

  [[nodiscard]] std::size_t bytes() const { return ends_.empty() ? 0 : ends_.back(); }
  [[nodiscard]] const std::byte* memory() const { return memory_->data(); }

  double write_seconds() const {
    const Stopwatch watch;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (!parts_[i]->SerializeToArray(memory_->data() + begin, static_cast<int>(ends_[i] - begin))) {
        throw std::runtime_error("a part was not written");
      }
      begin = ends_[i];
    }
    return watch.seconds();
  }

  double parse_seconds(std::size_t threads) const {
    std::vector<Model> models(threads);
    const Stopwatch watch;
    std::vector<std::jthread> running;
    for (std::size_t thread = 0; thread < threads; ++thread) {
      running.emplace_back([this, thread, threads, &model = models[thread]] {
        for (std::size_t i = thread; i < parts_.size(); i += threads) {
          Message& part = i < nodes_ ? static_cast<Message&>(*model.add_nodes()) : *model.add_tensors();
          const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
          static_cast<void>(part.ParseFromArray(memory_->data() + begin, static_cast<int>(ends_[i] - begin)));
        }
      });
    }
    running.clear();
    return watch.seconds();
  }

 private:
  void add(const Message& part) {
    parts_.push_back(&part);
    ends_.push_back(bytes() + part.ByteSizeLong());
  }

  std::vector<const Message*> parts_;
  std::vector<std::size_t> ends_;
  std::size_t nodes_ = 0;
  std::optional<AlignedMemory> memory_;
};

double resident_mb() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t size = 0;
  std::uint64_t resident = 0;
  statm >> size >> resident;
  return static_cast<double>(resident) * 4096 / 1e6;
}

/// Peak memory beyond what is there when it is made.
class MemoryBeyond {
 public:
  [[nodiscard]] double megabytes() const { return usage_.peak_rss_mb() * 1.048576 - before_; }

 private:
  double before_ = resident_mb();
  Usage usage_;
};

void warm(const fs::path& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      read_once(entry.path());
    }
  }
}

ContextOptions proto_context(std::size_t staging_bytes, bool is_reserved) {
  ContextOptions options;
  options.staging_bytes = staging_bytes;
  options.reserve_bytes = is_reserved ? staging_bytes : 0;
  options.registry.add<ProtoHandler>();
  return options;
}

SaveOptions chunked_from(std::uint64_t bytes, Snapshot snapshot = Snapshot::copy) {
  ProtoOptions proto;
  proto.chunked_from_bytes = bytes;
  SaveOptions options;
  options.handler_options.set(proto);
  options.overwrite = true;
  options.snapshot = snapshot;
  return options;
}

struct Saved {
  double blocking_s = 0;
  double durable_s = 0;
  double beyond_mb = 0;
};

Saved save_message(const fs::path& target, const Message& message, const SaveOptions& options,
                   const Context& context) {
  fs::remove_all(target);  // A save that replaces 3 GB also removes them: that is the disk's own time.
  sync_file_system(target.parent_path());
  const MemoryBeyond memory;
  Saved saved;
  const Stopwatch watch;
  const ProtoMessage borrowed = ProtoMessage::borrow(message);
  const AsyncResponse saving = save_checkpointables_async(target, {{"message", borrowed}}, options, context);
  saved.blocking_s = watch.seconds();
  static_cast<void>(saving.wait());
  saved.durable_s = watch.seconds();
  saved.beyond_mb = memory.megabytes();
  return saved;
}

struct LoadedMessage {
  double seconds = 0;
  double beyond_mb = 0;  ///< Less the message itself.
};

LoadedMessage load_message(const fs::path& target, const Model& expected, const Context& context) {
  const MemoryBeyond memory;
  LoadedMessage result;
  const Stopwatch watch;
  Loaded loaded =
      load_checkpointables(target, {{"message", abstract_message<Model>()}}, LoadOptions(), context);
  const auto model = loaded.take<Model>("message");
  result.seconds = watch.seconds();
  result.beyond_mb = memory.megabytes() - static_cast<double>(model.SpaceUsedLong()) / 1e6;
  if (model.nodes_size() != expected.nodes_size() || model.tensors_size() != expected.tensors_size() ||
      model.ByteSizeLong() != expected.ByteSizeLong()) {
    throw std::runtime_error("another message was loaded");
  }
  return result;
}

double planning_seconds(const Model& model, std::uint64_t max_size, std::size_t& chunks) {
  const Stopwatch watch;
  proto::SplitOptions options;
  options.max_size = max_size;
  proto::AutoSplitter splitter(model, options);
  chunks = splitter.chunks().size();
  return watch.seconds();
}

/// Measures whole blocks, and says what all bytes would take.
Ceilings ceilings_of(const fs::path& directory, const std::byte* source, std::size_t bytes) {
  constexpr std::size_t kRunBytes = 4 * kMiB;
  const std::size_t whole = std::max<std::size_t>(bytes / kRunBytes, 1) * kRunBytes;
  Ceilings found = measure_ceilings(directory, source, std::min(whole, bytes));
  const double factor = static_cast<double>(bytes) / static_cast<double>(found.bytes);
  found.write_s *= factor;
  found.read_s *= factor;
  return found;
}

/// The rows of the large message: P1 to P4 and P6.
void run_large(const Sizes& sizes) {
  const Model model = make_model(sizes);
  const std::size_t bytes = model.ByteSizeLong();
  Ceilings ceilings;
  double alone_write_s = 0;
  double alone_parse_s = 0;
  {
    const PartsAlone alone(model);
    alone_write_s = alone.write_seconds();
    alone_parse_s = alone.parse_seconds(2);
    ceilings = ceilings_of(sizes.directory, alone.memory(), alone.bytes());
  }
  std::size_t chunks = 0;
  const double planning_s = planning_seconds(model, kMiB, chunks);
  if (sizes.has("P4")) {
    print({{"row", "P4"}, {"planning_s", planning_s}, {"nodes", sizes.nodes}, {"chunks", chunks}});
  }
  const fs::path target = sizes.directory / "message";
  const std::size_t roomy = bytes + 64 * kMiB;
  if (sizes.has("P1") || sizes.has("P2")) {
    for (const bool is_borrowed : {false, true}) {
      const Context context(proto_context(roomy, true));
      const Saved saved = save_message(
          target, model, chunked_from(0, is_borrowed ? Snapshot::borrow : Snapshot::copy), context);
      print({{"row", "P1"},
             {"snapshot", is_borrowed ? "borrow" : "copy"},
             {"blocking_s", saved.blocking_s},
             {is_borrowed ? "planning_s" : "alone_s", is_borrowed ? planning_s : alone_write_s}});
      print({{"row", "P2"},
             {"snapshot", is_borrowed ? "borrow" : "copy"},
             {"bytes", bytes},
             {"durable_s", saved.durable_s},
             {"raw_write_s", ceilings.write_s}});
    }
    for (const std::size_t budget : {roomy, sizes.budget_mib * kMiB}) {
      const Context context(proto_context(budget, false));
      const Saved saved = save_message(target, model, chunked_from(0), context);
      print({{"row", "P2"},
             {"budget_mb", static_cast<double>(budget) / 1e6},
             {"beyond_mb", saved.beyond_mb},
             {"durable_s", saved.durable_s},
             {"raw_write_s", ceilings.write_s}});
    }
  }
  if (sizes.has("P3")) {
    if (!fs::exists(target)) {
      save_message(target, model, chunked_from(0), Context(proto_context(sizes.budget_mib * kMiB, false)));
    }
    for (const bool is_cold : {false, true}) {
      const Context context(proto_context(sizes.budget_mib * kMiB, false));
      const bool is_dropped = is_cold && drop_page_cache(sizes.directory);
      if (!is_cold) {
        warm(target);
      }
      const LoadedMessage loaded = load_message(target, model, context);
      print({{"row", "P3"},
             {"cache", is_dropped ? "cold"
                       : is_cold  ? "not dropped"
                                  : "warm"},
             {"load_s", loaded.seconds},
             {"alone_s", alone_parse_s},
             {"raw_read_s", ceilings.read_s},
             {"budget_mb", static_cast<double>(sizes.budget_mib * kMiB) / 1e6},
             {"beyond_mb", loaded.beyond_mb}});
    }
    const PartsAlone again(
        model);  // The first time it had to make the memory that the loads have used since.
    again.write_seconds();
    print({{"row", "P3"}, {"alone_s", alone_parse_s}, {"alone_again_s", again.parse_seconds(2)}});
  }
  fs::remove_all(target);
  if (sizes.has("P6")) {
    proto::SplitOptions options;
    options.max_size = sizes.limit_mib * kMiB;
    sync_file_system(sizes.directory);
    const Stopwatch watch;
    proto::AutoSplitter splitter(model, options);
    const proto::Written written = splitter.write(sizes.directory / "model");
    const double write_s = watch.seconds();
    read_once(written.path);
    Model read;
    const Stopwatch reading;
    static_cast<void>(proto::read(sizes.directory / "model", read));
    const double read_s = reading.seconds();
    print({{"row", "P6"},
           {"limit_mib", sizes.limit_mib},
           {"write_s", write_s},
           {"raw_write_s", ceilings.write_s},
           {"read_s", read_s},
           {"alone_s", alone_parse_s}});
    fs::remove(written.path);
  }
}

double metadata_seconds(const fs::path& target, const Context& context) {
  std::vector<double> seconds;
  for (int i = 0; i < 5; ++i) {
    const Stopwatch watch;
    static_cast<void>(checkpointables_metadata(target, context).at("message").as<AbstractProto>());
    seconds.push_back(watch.seconds());
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

void run_metadata_of_chunks(const Sizes& sizes) {
  constexpr std::size_t kContentBytes = 350'000;  // More than a third of a page.
  const fs::path target = sizes.directory / "chunks";
  const Context context(proto_context(sizes.budget_mib * kMiB, false));
  {
    Model model;
    for (int i = 0; i < sizes.chunks; ++i) {
      model.add_tensors()->mutable_content()->resize(kContentBytes);
    }
    save_message(target, model, chunked_from(0, Snapshot::borrow), context);
  }
  print({{"row", "P5"}, {"chunks", sizes.chunks}, {"metadata_s", metadata_seconds(target, context)}});
  fs::remove_all(target);
}

/// The part of a message in so many chunks, from a checkpoint and from a file.
void run_part(const Sizes& sizes) {
  constexpr int kValues = 50'000;  // 400 KB: a block has a chunk of its own.
  Model model;
  Noise noise;
  for (int i = 0; i < sizes.parts; ++i) {
    Block& block = *model.add_blocks();
    for (int value = 0; value < kValues; ++value) {
      block.add_values(noise.next());
    }
  }
  const fs::path target = sizes.directory / "parts";
  const Context context(proto_context(sizes.budget_mib * kMiB, false));
  save_message(target, model, chunked_from(0), context);
  proto::SplitOptions options;
  options.max_size = kMiB;
  proto::AutoSplitter(model, options).write(sizes.directory / "parts");
  warm(target);
  read_once(sizes.directory / "parts.cpb");
  const int part = sizes.parts / 2;
  const std::string path = fmt::format("blocks[{}]", part);

  const std::string serialised = model.blocks(part).SerializeAsString();
  const fs::path alone = sizes.directory / "alone";
  std::ofstream(alone, std::ios::binary)
      .write(serialised.data(), static_cast<std::streamsize>(serialised.size()));
  const auto median = [](const std::function<void()>& function) {
    std::array<double, 9> seconds{};
    for (double& each : seconds) {
      const Stopwatch watch;
      function();
      each = watch.seconds();
    }
    std::sort(seconds.begin(), seconds.end());
    return seconds[seconds.size() / 2];
  };
  const double alone_s = median([&] {
    std::string bytes(serialised.size(), '\0');
    std::ifstream(alone, std::ios::binary).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    Block block;
    static_cast<void>(block.ParseFromString(bytes));
  });
  const double checkpoint_s = median([&] {
    const AbstractProto wanted = abstract_message<Model>().part(path);
    static_cast<void>(
        load_checkpointables(target, {{"message", wanted}}, LoadOptions(), context).take<Block>("message"));
  });
  const double file_s = median([&] {
    Block block;
    proto::MergeOptions merging;
    merging.parts_are_whole = true;
    static_cast<void>(proto::read_part(sizes.directory / "parts", *Model::descriptor(),
                                       proto::parse_path(path), block, merging));
  });
  print({{"row", "P9"},
         {"chunks", sizes.parts},
         {"checkpoint_s", checkpoint_s},
         {"file_s", file_s},
         {"alone_s", alone_s},
         {"metadata_s", metadata_seconds(target, context)}});
  fs::remove_all(target);
  fs::remove(sizes.directory / "parts.cpb");
  fs::remove(alone);
}

/// One list of packed numbers, in a file: what a write and a read take beyond it.
void run_list(const Sizes& sizes) {
  const fs::path prefix = sizes.directory / "list";
  const std::size_t bytes = sizes.list_mib * kMiB;
  nlohmann::ordered_json row{{"row", "P10"}, {"list_mib", sizes.list_mib}};
  {
    Block block;
    block.mutable_values()->Resize(static_cast<int>(bytes / sizeof(std::uint64_t)), 1);
    const MemoryBeyond memory;
    const Stopwatch watch;
    proto::AutoSplitter(block).write(prefix);
    row["write_s"] = watch.seconds();
    row["write_beyond_mb"] = memory.megabytes();
  }
  const MemoryBeyond memory;
  const Stopwatch watch;
  Block block;
  static_cast<void>(proto::read(prefix, block));
  row["read_s"] = watch.seconds();
  row["read_beyond_mb"] = memory.megabytes() - static_cast<double>(bytes) / 1e6;
  if (static_cast<std::size_t>(block.values_size()) != bytes / sizeof(std::uint64_t)) {
    throw std::runtime_error("another list was read");
  }
  print(row);
  fs::remove(prefix.string() + ".cpb");
  fs::remove(prefix.string() + ".pb");
}

void run_small(const Sizes& sizes) {
  constexpr int kTimes = 51;
  const fs::path target = sizes.directory / "small";
  const Context context(proto_context(256 * kMiB, true));
  Model small;
  small.add_tensors()->set_content(std::string(1024, 's'));
  std::vector<double> seconds;
  for (int i = 0; i < kTimes; ++i) {
    seconds.push_back(save_message(target, small, chunked_from(64 * kMiB), context).durable_s);
  }
  std::sort(seconds.begin(), seconds.end());
  print({{"row", "P8"}, {"bytes", small.ByteSizeLong()}, {"durable_s", seconds[kTimes / 2]}});

  Sizes medium = sizes;
  medium.nodes = 100'000;
  medium.tensors = 56;
  medium.tensor_mib = 1;
  const Model model = make_model(medium);
  std::map<std::string, std::vector<double>> blocking;
  for (int i = 0; i < 9; ++i) {
    blocking["whole"].push_back(save_message(target, model, chunked_from(0x7fffffff), context).blocking_s);
    blocking["chunks"].push_back(save_message(target, model, chunked_from(0), context).blocking_s);
  }
  for (auto& [form, each] : blocking) {
    std::sort(each.begin(), each.end());
  }
  print({{"row", "P8"},
         {"bytes", model.ByteSizeLong()},
         {"blocking_s", blocking["chunks"][4]},
         {"whole_blocking_s", blocking["whole"][4]}});
  fs::remove_all(target);
}

void run_rows(const Sizes& sizes) {
  fs::create_directories(sizes.directory);
  for (int round = 0; round < sizes.rounds; ++round) {
    if (sizes.has("P8")) {
      run_small(sizes);
    }
    if (sizes.has("P7")) {
      run_records(sizes.directory, sizes.records_mib);
    }
    if (sizes.has("P9")) {
      run_part(sizes);
    }
    if (sizes.has("P10")) {
      run_list(sizes);
    }
    if (sizes.has("P5")) {
      run_metadata_of_chunks(sizes);
    }
    if (sizes.has("P1") || sizes.has("P2") || sizes.has("P3") || sizes.has("P4") || sizes.has("P6")) {
      run_large(sizes);
    }
  }
}

}  // namespace
}  // namespace cairn::bench

int main(int argc, char** argv) {
  cairn::bench::Sizes sizes;
  CLI::App app("Measures large protobuf messages; prints a JSON object a line.");
  app.add_option("--dir", sizes.directory, "where files go")->required();
  app.add_option("--rows", sizes.rows, "P1 to P10, with commas; default all")->delimiter(',');
  app.add_option("--tensors", sizes.tensors);
  app.add_option("--tensor-mib", sizes.tensor_mib);
  app.add_option("--nodes", sizes.nodes);
  app.add_option("--budget-mib", sizes.budget_mib, "of the saves and loads with less than the message");
  app.add_option("--limit-mib", sizes.limit_mib, "of a chunk in a file (P6)");
  app.add_option("--chunks", sizes.chunks, "of the message whose metadata is read (P5)");
  app.add_option("--parts", sizes.parts, "chunks of the message of which a part is loaded (P9)");
  app.add_option("--list-mib", sizes.list_mib, "of the list of numbers (P10)");
  app.add_option("--records-mib", sizes.records_mib, "P7");
  app.add_option("--rounds", sizes.rounds);
  CLI11_PARSE(app, argc, argv);
  try {
    cairn::bench::run_rows(sizes);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
