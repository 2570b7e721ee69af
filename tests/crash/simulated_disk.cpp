// SPDX-License-Identifier: Apache-2.0
#include "crash/simulated_disk.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "io/internal/chunk_hash.hpp"
#include "io/internal/syscalls.hpp"

namespace cairn::crash {
namespace {

constexpr char kGarbage = '\xa5';

std::uint64_t hash_text(std::string_view text) {
  return io::hash_chunk(std::as_bytes(std::span(text)));
}

std::uint64_t mix(std::uint64_t seed, std::uint64_t value) {
  return (seed ^ value) * 0x9e3779b97f4a7c15u + (seed >> 29);
}

/// Sector number `sector` of a file that holds `data`, filled with zeros.
std::string sector_of(const std::string& data, std::size_t sector) {
  const std::size_t begin = std::min(data.size(), sector * kSectorBytes);
  std::string bytes = data.substr(begin, kSectorBytes);
  bytes.resize(kSectorBytes, '\0');
  return bytes;
}

}  // namespace

SimulatedDisk::SimulatedDisk() {
  const auto root = std::make_shared<Node>();
  cached_.push_back(root);
  durable_.push_back(root);
}

std::optional<Inode> SimulatedDisk::find(Inode directory, std::string_view name) const {
  const Node& parent = node(directory);
  const auto found = parent.entries.find(name);
  return found == parent.entries.end() ? std::nullopt : std::optional(found->second);
}

Node& SimulatedDisk::edit(NodePointer& node) {
  if (node.use_count() > 1) {
    node = std::make_shared<Node>(*node);
  }
  return *node;
}

void SimulatedDisk::apply(Node& node, const DataChange& change) {
  if (!change.bytes) {
    node.data.resize(change.offset, '\0');
    return;
  }
  const std::size_t end = change.offset + change.bytes->size();
  if (node.data.size() < end) {
    node.data.resize(end, '\0');
  }
  node.data.replace(change.offset, change.bytes->size(), *change.bytes);
}

void SimulatedDisk::apply(std::vector<NodePointer>& nodes, const NameChange& change) {
  for (const Assignment& assignment : change.assignments) {
    Node& directory = edit(nodes[assignment.directory]);
    if (assignment.target) {
      directory.entries[assignment.name] = *assignment.target;
    } else {
      directory.entries.erase(assignment.name);
    }
  }
}

void SimulatedDisk::give_names_away(int machine) {
  for (NameChange& change : pending_names_) {
    change.holder = change.holder == machine ? kServer : change.holder;
  }
}

void SimulatedDisk::change_names(std::vector<Assignment> assignments, Kind kind) {
  NameChange change;
  change.number = ++last_number_;
  if (kind == Kind::move) {
    for (const Assignment& taken : assignments) {
      const auto brings = [&taken](const Assignment& brought) {
        return brought.target && brought.directory == taken.directory && brought.name == taken.name;
      };
      const auto found =
          std::find_if(pending_names_.rbegin(), pending_names_.rend(), [&](const NameChange& earlier) {
            return std::any_of(earlier.assignments.begin(), earlier.assignments.end(), brings);
          });
      // Something that was just made has no other name to stay under; only a second move needs the first.
      if (found != pending_names_.rend() && found->assignments.size() > 1) {
        change.needs.push_back(found->number);
      }
    }
  }
  if (kind != Kind::creation) {
    give_names_away(writer_);
  }
  change.holder = kind == Kind::creation ? writer_ : kServer;
  change.assignments = std::move(assignments);
  apply(cached_, change);
  pending_names_.push_back(std::move(change));
}

void SimulatedDisk::change_data(Inode file, DataChange change) {
  apply(edit(cached_[file]), change);
  pending_data_[file].push_back(std::move(change));
}

Inode SimulatedDisk::make(Inode directory, const std::string& name, io::FileKind kind, std::string data) {
  const auto inode = static_cast<Inode>(cached_.size());
  auto made = std::make_shared<Node>();
  made->kind = kind;
  made->data = std::move(data);
  cached_.push_back(made);
  durable_.push_back(std::move(made));
  change_names({{directory, name, inode}}, kind == io::FileKind::regular ? Kind::creation : Kind::other);
  return inode;
}

void SimulatedDisk::write(Inode file, std::size_t offset, std::string_view bytes) {
  change_data(file, {offset, std::make_shared<const std::string>(bytes), writer_});
}

void SimulatedDisk::resize(Inode file, std::size_t size) {
  change_data(file, {size, nullptr, writer_});
}

void SimulatedDisk::link(Inode directory, const std::string& name, Inode file) {
  change_names({{directory, name, file}}, Kind::other);
}

void SimulatedDisk::unlink(Inode directory, const std::string& name) {
  change_names({{directory, name, std::nullopt}}, Kind::other);
}

void SimulatedDisk::rename(Inode from, const std::string& name, Inode to, const std::string& new_name) {
  const Inode moved = *find(from, name);
  change_names({{from, name, std::nullopt}, {to, new_name, moved}}, Kind::move);
}

void SimulatedDisk::exchange(Inode one, const std::string& name, Inode other, const std::string& other_name) {
  const Inode first = *find(one, name);
  const Inode second = *find(other, other_name);
  change_names({{one, name, second}, {other, other_name, first}}, Kind::move);
}

void SimulatedDisk::make_durable(std::size_t position) {
  const NameChange change = pending_names_[position];
  const auto position_of = [this](std::uint64_t number) {
    return std::find_if(pending_names_.begin(), pending_names_.end(),
                        [number](const NameChange& pending) { return pending.number == number; });
  };
  for (const std::uint64_t need : change.needs) {
    if (const auto needed = position_of(need); needed != pending_names_.end()) {
      make_durable(static_cast<std::size_t>(needed - pending_names_.begin()));
    }
  }
  apply(durable_, change);
  last_durable_ = std::max(last_durable_, change.number);
  pending_names_.erase(position_of(change.number));
  // What came earlier may be written later, but not over this.
  const auto is_over = [&change](const Assignment& earlier) {
    return std::any_of(change.assignments.begin(), change.assignments.end(), [&](const Assignment& now) {
      return now.directory == earlier.directory && now.name == earlier.name;
    });
  };
  for (NameChange& earlier : pending_names_) {
    if (earlier.number < change.number) {
      std::erase_if(earlier.assignments, is_over);
    }
  }
}

void SimulatedDisk::sync_names(Inode directory) {
  const auto concerns = [directory](const NameChange& change) {
    return std::any_of(change.assignments.begin(), change.assignments.end(),
                       [directory](const Assignment& each) { return each.directory == directory; });
  };
  while (true) {
    const auto found = std::find_if(pending_names_.begin(), pending_names_.end(), concerns);
    if (found == pending_names_.end()) {
      return;
    }
    make_durable(static_cast<std::size_t>(found - pending_names_.begin()));
  }
}

void SimulatedDisk::sync(Inode inode) {
  if (node(inode).kind == io::FileKind::directory) {
    sync_names(inode);
  } else if (pending_data_.erase(inode) > 0) {
    durable_[inode] = cached_[inode];
  }
}

void SimulatedDisk::sync_all() {
  durable_ = cached_;
  pending_data_.clear();
  pending_names_.clear();
  last_durable_ = last_number_;
}

void SimulatedDisk::open_as(int machine, Inode file) {
  if (const auto found = pending_data_.find(file); found != pending_data_.end()) {
    for (DataChange& change : found->second) {
      change.holder = change.holder == machine ? machine : kServer;
    }
  }
  for (NameChange& change : pending_names_) {
    if (change.holder != machine && change.assignments.size() == 1 &&
        change.assignments.front().target == file) {
      change.holder = kServer;
    }
  }
}

void SimulatedDisk::lose_machine(int machine, Fate& fate) {
  for (auto file = pending_data_.begin(); file != pending_data_.end();) {
    if (file->second.back().holder != machine) {
      ++file;
      continue;
    }
    edit(cached_[file->first]).data = survivors(file->first, file->second, fate);
    durable_[file->first] = cached_[file->first];
    file = pending_data_.erase(file);
  }
  std::erase_if(pending_names_, [&](NameChange& change) {
    if (std::exchange(change.holder, change.holder == machine ? kServer : change.holder) != machine) {
      return false;
    }
    if (change.assignments.empty()) {
      return true;  // Something later of that name is durable.
    }
    const Assignment& made = change.assignments.front();
    if (find(made.directory, made.name) != made.target) {
      return false;  // It was moved or removed since, so the server knows it.
    }
    edit(cached_[made.directory]).entries.erase(made.name);
    return true;
  });
}

std::size_t SimulatedDisk::journalled_names() const {
  const auto end = std::find_if(pending_names_.begin(), pending_names_.end(),
                                [this](const NameChange& change) { return change.number > last_durable_; });
  return static_cast<std::size_t>(end - pending_names_.begin());
}

std::string SimulatedDisk::survivors(Inode file, const std::vector<DataChange>& changes, Fate& fate) const {
  std::vector<std::string> versions{durable_[file]->data};
  Node node = *durable_[file];
  std::vector<std::size_t> sizes{node.data.size()};
  for (const DataChange& change : changes) {
    apply(node, change);
    versions.push_back(node.data);
    if (sizes.back() != node.data.size()) {
      sizes.push_back(node.data.size());
    }
  }
  const std::size_t durable_bytes = sizes.front();
  const std::size_t size = sizes.size() > 1 ? sizes[fate.size(sizes.size())] : sizes.front();
  std::string data;
  for (std::size_t sector = 0; sector * kSectorBytes < size; ++sector) {
    std::vector<std::string> contents;
    for (const std::string& version : versions) {
      std::string content = sector_of(version, sector);
      if (std::find(contents.begin(), contents.end(), content) == contents.end()) {
        contents.push_back(std::move(content));
      }
    }
    const bool can_be_garbage = sector * kSectorBytes >= durable_bytes;
    std::size_t picked = 0;
    if (contents.size() > 1 || can_be_garbage) {
      picked = fate.sector(contents.size(), can_be_garbage);
    }
    data += picked < contents.size() ? contents[picked] : std::string(kSectorBytes, kGarbage);
  }
  data.resize(size);
  return data;
}

SimulatedDisk SimulatedDisk::after_power_cut(const std::vector<bool>& kept, Fate& fate) const {
  SimulatedDisk left;
  left.cached_ = durable_;
  left.last_number_ = left.last_durable_ = last_number_;
  std::vector<std::uint64_t> lost;
  for (std::size_t i = 0; i < pending_names_.size(); ++i) {
    const NameChange& change = pending_names_[i];
    const bool lacks_one =
        std::find_first_of(lost.begin(), lost.end(), change.needs.begin(), change.needs.end()) != lost.end();
    if (kept[i] && !lacks_one) {
      apply(left.cached_, change);
    } else {
      lost.push_back(change.number);
    }
  }
  // Only what has a name is decided: nobody sees the rest.
  std::vector<Inode> todo{kRootInode};
  std::vector<bool> is_seen(left.cached_.size(), false);
  while (!todo.empty()) {
    const Inode inode = todo.back();
    todo.pop_back();
    if (is_seen[inode]) {
      continue;
    }
    is_seen[inode] = true;
    if (const auto found = pending_data_.find(inode); found != pending_data_.end()) {
      edit(left.cached_[inode]).data = survivors(inode, found->second, fate);
    }
    for (const auto& [name, child] : left.cached_[inode]->entries) {
      todo.push_back(child);
    }
  }
  left.durable_ = left.cached_;
  return left;
}

std::uint64_t SimulatedDisk::fingerprint() const {
  return fingerprint(kRootInode);
}

std::uint64_t SimulatedDisk::fingerprint(Inode inode) const {
  const Node& node = this->node(inode);
  if (node.kind != io::FileKind::directory) {
    return mix(hash_text(node.data), node.data.size());
  }
  std::uint64_t hash = node.entries.size();
  for (const auto& [name, child] : node.entries) {
    hash = mix(mix(hash, hash_text(name)), fingerprint(child));
  }
  return hash;
}

std::string SimulatedDisk::describe() const {
  std::string text;
  describe(kRootInode, "", text);
  return text;
}

void SimulatedDisk::describe(Inode inode, const std::string& path, std::string& text) const {
  const Node& node = this->node(inode);
  if (node.kind != io::FileKind::directory) {
    text += fmt::format("  {} ({} bytes, {:016x})\n", path, node.data.size(), hash_text(node.data));
    return;
  }
  text += fmt::format("  {}/\n", path);
  for (const auto& [name, child] : node.entries) {
    describe(child, path + "/" + name, text);
  }
}

}  // namespace cairn::crash
