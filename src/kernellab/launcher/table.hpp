// What is known of the calls by their keys: how often each was made, and the plan that repeats it.
//
// The table is bounded. When its younger half is full, the older half is forgotten; what is used becomes young again.

#pragma once

#include "plan.hpp"

#include <mutex>
#include <unordered_map>

namespace kernellab {

class Table {
 public:
  // What to do in a call: repeat the plan, record (once for each key), or nothing.
  struct Advice {
    std::shared_ptr<const Plan> plan;
    bool record = false;
    int64_t generation = 0;  // how often calls were forgotten before
  };

  Advice look_up(c10::ArrayRef<int64_t> words) {
    std::lock_guard<std::mutex> lock(mutex_);
    Entry& entry = find(words);
    switch (entry.state) {
      case State::fresh:  // it may be the only call, and kernels are still compiled in it
        entry.state = State::seen;
        return {};
      case State::seen:
        entry.state = State::settled;  // so that no other thread records it too
        return {nullptr, true, generation_};
      default:
        return {entry.plan, false};
    }
  }

  // The end of a recording: without a plan the call is not repeatable. What was recorded before calls were forgotten
  // is not kept.
  void settle(c10::ArrayRef<int64_t> words, std::shared_ptr<const Plan> plan, const Advice& advice) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (advice.generation != generation_) return;
    Entry& entry = find(words);
    entry.state = State::settled;
    entry.plan = std::move(plan);
  }

  // A recording was interrupted: the next call is recorded.
  void record_again(c10::ArrayRef<int64_t> words) {
    std::lock_guard<std::mutex> lock(mutex_);
    find(words).state = State::seen;
  }

  void forget() {
    std::lock_guard<std::mutex> lock(mutex_);
    generation_++;
    young_.clear();
    old_.clear();
  }

  void set_capacity(size_t entries) {
    std::lock_guard<std::mutex> lock(mutex_);
    half_ = std::max<size_t>(entries / 2, 1);
  }

  size_t size() {
    std::lock_guard<std::mutex> lock(mutex_);
    return young_.size() + old_.size();
  }

 private:
  enum class State { fresh, seen, settled };
  struct Entry {
    Words words;
    State state = State::fresh;
    std::shared_ptr<const Plan> plan;  // none: the call is not repeatable
  };
  using Half = std::unordered_multimap<uint64_t, Entry>;

  static Half::iterator search(Half& half, c10::ArrayRef<int64_t> words, uint64_t hash) {
    auto [place, end] = half.equal_range(hash);
    for (; place != end; ++place) {
      if (c10::ArrayRef<int64_t>(place->second.words) == words) return place;
    }
    return half.end();
  }

  Entry& find(c10::ArrayRef<int64_t> words) {
    const uint64_t hash = hash_of(words);
    auto place = search(young_, words, hash);
    if (place != young_.end()) return place->second;
    Entry entry;
    place = search(old_, words, hash);
    if (place != old_.end()) {
      entry = std::move(place->second);
      old_.erase(place);
    } else {
      entry.words.assign(words.begin(), words.end());
    }
    if (young_.size() >= half_) {
      old_ = std::move(young_);
      young_.clear();
    }
    return young_.emplace(hash, std::move(entry))->second;
  }

  size_t half_ = 2048;
  int64_t generation_ = 0;
  Half young_, old_;
  std::mutex mutex_;
};

inline Table table;

}  // namespace kernellab
