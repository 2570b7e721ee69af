// SPDX-License-Identifier: Apache-2.0
// Steps in memory, each figure beside what the machine does without the library in the same run.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "cairn/cairn.hpp"
#include "cairn/flash/flash_checkpointer.hpp"

#include "base/internal/aligned_memory.hpp"
#include "bench/ceilings.hpp"
#include "bench/interference.hpp"
#include "bench/measure.hpp"
#include "bench/operations.hpp"
#include "bench/report.hpp"
#include "flash/internal/agent.hpp"
#include "store/internal/held_checkpoint.hpp"

namespace cairn::bench {
namespace {

namespace fs = std::filesystem;

constexpr int kRounds = 5;

double median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times.empty() ? 0 : times[times.size() / 2];
}

double median_of(int rounds, const std::function<double()>& measure) {
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) {
    times.push_back(measure());
  }
  return median(times);
}

fs::path images_of(const Workload& workload) {
  return workload.memory / "cairn-bench";
}

fs::path root_of(const Workload& workload) {
  return workload.directory / "flash";
}

void clear(const Workload& workload) {
  fs::remove_all(images_of(workload));
  fs::remove_all(root_of(workload));
  sync_file_system(workload.directory);
}

FlashOptions options_of(const Workload& workload) {
  FlashOptions options;
  options.memory = images_of(workload);
  options.disk.save = save_when::at_steps({});
  return options;
}

StepOptions forced() {
  StepOptions options;
  options.force = true;
  return options;
}

/// A file without a name on the tmpfs, mapped, all of it present.
class WarmMapping {
 public:
  WarmMapping(const fs::path& directory, std::size_t bytes) : bytes_(bytes) {
    const int fd = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 || ::fallocate(fd, 0, 0, static_cast<off_t>(bytes)) != 0) {
      throw std::runtime_error("no room in " + directory.string());
    }
    memory_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    ::close(fd);
    if (memory_ == MAP_FAILED) {
      throw std::runtime_error("mmap");
    }
  }
  ~WarmMapping() { ::munmap(memory_, bytes_); }
  WarmMapping(const WarmMapping&) = delete;
  WarmMapping& operator=(const WarmMapping&) = delete;

  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(memory_); }

 private:
  std::size_t bytes_;
  void* memory_ = nullptr;
};

/// Two threads copy all arrays, a half of each, into memory or out of it.
double copy_arrays(std::vector<Array>& arrays, std::byte* memory, bool is_out_of_memory) {
  const Stopwatch watch;
  {
    std::vector<std::jthread> threads;
    for (std::size_t half = 0; half < 2; ++half) {
      threads.emplace_back([&arrays, memory, half, is_out_of_memory] {
        std::size_t at = 0;
        for (Array& array : arrays) {
          const std::span<std::byte> bytes = array.mutable_view().bytes();
          const std::size_t begin = half * (bytes.size() / 2);
          const std::size_t size = half == 0 ? bytes.size() / 2 : bytes.size() - begin;
          std::byte* const there = memory + at + begin;
          std::memcpy(is_out_of_memory ? bytes.data() + begin : there,
                      is_out_of_memory ? there : bytes.data() + begin, size);
          at += bytes.size();
        }
      });
    }
  }
  return watch.seconds();
}

/// A figure of /proc/<process>/status, in MiB.
double status_mb(const std::string& process, const std::string& name) {
  std::ifstream status("/proc/" + process + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name)) {
      return std::stod(line.substr(name.size() + 1)) / 1024.0;
    }
  }
  return 0;
}

std::ptrdiff_t count_of(const char* directory) {
  return std::distance(fs::directory_iterator(directory), fs::directory_iterator());
}

std::ptrdiff_t mappings() {
  std::ifstream maps("/proc/self/maps");
  return std::count(std::istreambuf_iterator<char>(maps), std::istreambuf_iterator<char>(), '\n');
}

struct SaveTimes {
  double blocking_s = 0;
  double complete_s = 0;  // From then on.
};

SaveTimes save_one(FlashCheckpointer& run, std::uint64_t step, const Tree& tree) {
  SaveTimes times;
  const Stopwatch watch;
  const FlashResponse response = run.save(step, {{"state", tree}});
  times.blocking_s = watch.seconds();
  response.wait_in_memory();
  times.complete_s = watch.seconds() - times.blocking_s;
  if (response.was_skipped()) {
    throw std::runtime_error("a save was skipped: there is no room for two images");
  }
  return times;
}

/// The first save of a program that was started again, once its memory is made.
void measure_first_save(const Workload& workload, const char* from, Tree& tree, double copy_s) {
  const Context context;
  FlashCheckpointer run(root_of(workload), options_of(workload), context);
  const auto resumed = run.resume({{"state", into(tree)}});
  if (!resumed) {
    throw std::runtime_error("nothing to go on from");
  }
  const Stopwatch making;
  run.wait();
  nlohmann::ordered_json line = line_of("flash_first_save", workload);
  line["from"] = from;
  line["found_in"] = resumed->from == ResumedFrom::memory ? "memory" : "disk";
  line["making_s"] = making.seconds();
  const SaveTimes times = save_one(run, resumed->step + 1, tree);
  line["blocking_s"] = times.blocking_s;
  line["complete_s"] = times.complete_s;
  line["copy_s"] = copy_s;
  line["blocking_of_copy"] = times.blocking_s / copy_s;
  print(line);
  run.close();
}

}  // namespace

void run_flash_save(const Workload& workload) {
  const ValuePool pool(workload.pool_file);
  std::vector<Array> arrays = make_arrays(workload, pool, 0);
  Tree tree = make_tree(workload, arrays);
  clear(workload);
  double copy_s = 0;
  {
    const WarmMapping mapping(workload.memory, workload.bytes());
    copy_s = median_of(kRounds, [&] { return copy_arrays(arrays, mapping.data(), false); });
  }
  const double before_mb = status_mb("self", "RssAnon:");
  nlohmann::ordered_json line = line_of("flash_save", workload);
  std::vector<double> blocking;
  std::vector<double> complete;
  {
    const Context context;
    FlashCheckpointer run(root_of(workload), options_of(workload), context);
    std::uint64_t step = 0;
    constexpr std::uint64_t kWarm = 3;  // Both images were made, and one was filled again.
    for (; step < kWarm + static_cast<std::uint64_t>(workload.saves); ++step) {
      if (step == kWarm) {
        run.wait();  // Likewise.
      }
      const SaveTimes times = save_one(run, step, tree);
      if (step == kWarm) {
        line["descriptors_at_first"] = count_of("/proc/self/fd");
        line["mappings_at_first"] = mappings();
      }
      if (step >= kWarm) {
        blocking.push_back(times.blocking_s);
        complete.push_back(times.complete_s);
      }
      mutate(arrays);
    }
    line["descriptors"] = count_of("/proc/self/fd");
    line["mappings"] = mappings();
    const DiskUse use = disk_use(images_of(workload));
    line["image_files"] = use.files;
    line["images_of_state"] = static_cast<double>(use.disk_bytes) / static_cast<double>(workload.bytes());
    line["own_mb"] = status_mb("self", "RssAnon:") - before_mb;
    {
      const fs::path held = images_of(workload) / "r00000" / std::to_string(step - 2);
      const store::CheckpointHold hold(io::Directory::open(io::posix_syscalls(), held));
      const Stopwatch watch;
      const bool was_skipped = run.save(step, {{"state", tree}}).was_skipped();
      line["skip_s"] = watch.seconds();
      line["was_skipped"] = was_skipped;
    }
    run.save(step, {{"state", tree}}, forced()).wait();
    run.close();
  }
  line["saves"] = workload.saves;
  line["copy_s"] = copy_s;
  line["blocking_s"] = median(blocking);
  line["complete_s"] = median(complete);
  line["blocking_of_copy"] = median(blocking) / copy_s;
  line["all_blocking_s"] = blocking;
  print(line);
  measure_first_save(workload, "memory", tree, copy_s);
  fs::remove_all(images_of(workload));
  measure_first_save(workload, "disk", tree, copy_s);
  clear(workload);
}

void run_flash_load(const Workload& workload) {
  const ValuePool pool(workload.pool_file);
  std::vector<Array> arrays = make_arrays(workload, pool, 1);
  Tree tree = make_tree(workload, arrays);
  clear(workload);
  const Context context;
  FlashCheckpointer run(root_of(workload), options_of(workload), context);
  save_one(run, 1, tree);
  run.wait();  // Until its memory has large pages.
  const WarmMapping mapping(workload.memory, workload.bytes());
  copy_arrays(arrays, mapping.data(), false);
  const auto rounds = [&](const char* into_what, const std::function<double()>& load,
                          const std::function<double()>& copy) {
    std::vector<double> loads;
    std::vector<double> copies;
    for (int i = 0; i < workload.saves; ++i) {
      copies.push_back(copy());
      loads.push_back(load());
    }
    nlohmann::ordered_json line = line_of("flash_load", workload);
    line["into"] = into_what;
    line["load_s"] = median(loads);
    line["copy_s"] = median(copies);
    line["speed_of_copy"] = median(copies) / median(loads);
    line["check"] = pool.matches(0, 1, arrays[0].data<float>()) ? "ok" : "wrong";
    print(line);
  };
  rounds(
      "used memory",
      [&] {
        const Stopwatch watch;
        static_cast<void>(run.load(1, {{"state", into(tree)}}));
        return watch.seconds();
      },
      [&] { return copy_arrays(arrays, mapping.data(), true); });
  rounds(
      "fresh memory",
      [&] {
        const Stopwatch watch;
        const Loaded loaded = run.load(1, {"state"});
        return watch.seconds();
      },
      [&] {
        const AlignedMemory fresh(workload.bytes());
        return copy_with(2, fresh.data(), mapping.data(), workload.bytes());
      });
  run.close();
  clear(workload);
}

void run_flash_program(const Workload& workload) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const ValuePool pool(workload.pool_file);
  std::vector<Array> arrays = make_arrays(workload, pool, 0);
  const Tree tree = make_tree(workload, arrays);
  const Context context;
  FlashCheckpointer run(root_of(workload), options_of(workload), context);
  std::uint64_t step = 0;
  const auto measure = [&](const char* agent) {
    const double blocking_s = median_of(workload.saves, [&] {
      mutate(arrays);
      return save_one(run, step++, tree).blocking_s;
    });
    nlohmann::ordered_json line = line_of("flash_agent_save", workload);
    line["agent"] = agent;
    line["blocking_s"] = blocking_s;
    print(line);
  };
  for (; step < 3; ++step) {
    save_one(run, step, tree);
  }
  run.wait();
  measure("serves");
  ::kill(::getppid(), SIGSTOP);
  measure("stopped");
  ::kill(::getppid(), SIGCONT);
  {
    constexpr std::chrono::seconds kAlone{2};
    const MatrixProducts products(std::max(std::thread::hardware_concurrency(), 1U));
    const Stopwatch alone;
    std::this_thread::sleep_for(kAlone);
    const double rate_alone = static_cast<double>(products.made()) / alone.seconds();
    const FlashResponse response = run.save(step++, {{"state", tree}}, forced());
    response.wait_in_memory();
    const std::uint64_t before = products.made();
    const Stopwatch beside;
    response.wait();
    nlohmann::ordered_json line = line_of("flash_persist_beside", workload);
    line["persist_s"] = beside.seconds();
    line["slowdown"] = 1 - static_cast<double>(products.made() - before) / beside.seconds() / rate_alone;
    print(line);
  }
  save_one(run, step, tree);
  std::fputs(fmt::format("ready {} {}\n", ::getpid(), step).c_str(), stdout);
  std::fflush(stdout);
  for (;;) {
    ::pause();
  }
}

namespace {

/// Starts the program of run_flash_agent under an agent. Returns what both say, and the agent's process.
std::pair<FILE*, pid_t> start_agent(const Workload& workload) {
  flash::AgentOptions options;
  options.memory = images_of(workload);
  options.root = root_of(workload);
  options.program = {fs::read_symlink("/proc/self/exe"), "flash_program"};
  const auto add = [&](const char* name, const std::string& value) {
    options.program.insert(options.program.end(), {name, value});
  };
  add("--dir", workload.directory);
  add("--memory", workload.memory);
  add("--pool", workload.pool_file);
  add("--workload", workload.name);
  add("--count", std::to_string(workload.count));
  add("--rows", std::to_string(workload.rows));
  add("--cols", std::to_string(workload.columns));
  add("--saves", std::to_string(workload.saves));
  int ends[2] = {};
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw std::runtime_error("pipe");
  }
  const pid_t agent = ::fork();
  if (agent == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    ::dup2(ends[1], STDOUT_FILENO);
    ContextOptions context;
    context.staging_bytes = std::size_t{32} << 20;
    ::_exit(flash::run_agent(options, context));
  }
  ::close(ends[1]);
  return {::fdopen(ends[0], "r"), agent};
}

/// How long the last word of an agent takes, and the most memory that it has meanwhile.
void measure_last_word(const Workload& workload, pid_t program, pid_t agent, std::uint64_t step) {
  ::kill(program, SIGKILL);
  const Stopwatch watch;
  const fs::path commit = root_of(workload) / std::to_string(step) / "COMMIT";
  double agent_mb = 0;
  while (!fs::exists(commit)) {
    agent_mb = std::max(agent_mb, status_mb(std::to_string(agent), "RssAnon:"));
    if (watch.seconds() > 600) {
      throw std::runtime_error("no last word");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  nlohmann::ordered_json line = line_of("flash_last_word", workload);
  line["persisted_s"] = watch.seconds();
  line["agent_mb"] = agent_mb;
  print(line);
}

}  // namespace

void run_flash_agent(const Workload& workload) {
  clear(workload);
  const auto [said, agent] = start_agent(workload);
  char text[4096];
  int program = 0;
  unsigned long long step = 0;
  while (program == 0 && std::fgets(text, sizeof(text), said) != nullptr) {
    if (std::sscanf(text, "ready %d %llu", &program, &step) != 2) {
      std::fputs(text, stdout);
    }
  }
  if (program == 0) {
    throw std::runtime_error("the program has failed");
  }
  measure_last_word(workload, program, agent, step);
  ::waitpid(agent, nullptr, 0);
  std::fclose(said);

  const ValuePool pool(workload.pool_file);
  const WarmMapping mapping(workload.memory, workload.bytes());
  const AlignedMemory anonymous(workload.bytes());
  pool.fill(0, 0, std::span(reinterpret_cast<float*>(mapping.data()), workload.bytes() / sizeof(float)));
  std::memcpy(anonymous.data(), mapping.data(), workload.bytes());
  const Context context;
  std::vector<double> copies;
  std::vector<double> writes;
  std::vector<double> anonymous_writes;
  const fs::path target = root_of(workload) / "copy";
  const fs::path raw = workload.directory / "flash.raw";
  const auto measure = [&](std::vector<double>& times, const fs::path& made, const auto& make) {
    sync_file_system(workload.directory);
    times.push_back(make());
    fs::remove_all(made);
  };
  fs::remove(raw);
  for (int i = 0; i < workload.saves; ++i) {
    measure(writes, raw, [&] { return write_durably(raw, mapping.data(), workload.bytes()); });
    measure(copies, target, [&] {
      const Stopwatch watch;
      copy_checkpoint(images_of(workload) / "r00000" / std::to_string(step), target, {}, context);
      return watch.seconds();
    });
    measure(anonymous_writes, raw, [&] { return write_durably(raw, anonymous.data(), workload.bytes()); });
  }
  nlohmann::ordered_json line = line_of("flash_persist", workload);
  line["copy_s"] = median(copies);
  line["write_s"] = median(writes);
  line["write_anonymous_s"] = median(anonymous_writes);
  line["speed_of_write"] = median(writes) / median(copies);
  print(line);
  clear(workload);
}

}  // namespace cairn::bench
