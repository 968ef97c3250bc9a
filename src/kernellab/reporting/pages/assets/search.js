// Search by name. Each name is compared once, then rows are marked. Nothing is sorted: the rows of a lane are in the
// order of time already, so that next and previous are the best of one candidate from each lane.

class Search {
  constructor(events, tracks, text) {
    this.events = events;
    const wanted = text.trim().toLowerCase();
    this.active = wanted !== "";
    this.count = 0;
    if (!this.active) return;
    const matches = new Uint8Array(events.names.length);
    for (let i = 0; i < matches.length; i++) matches[i] = events.lower[i].includes(wanted) ? 1 : 0;
    const { place } = tracks, { name } = events, lanes = events.lanes.length;
    const hit = new Uint8Array(tracks.row.length); // by place
    this.laneStart = new Uint32Array(lanes + 1);
    let count = 0;
    const hits = new Uint32Array(tracks.row.length);
    for (let lane = 0; lane < lanes; lane++) {
      for (let row = events.laneStart[lane], stop = events.laneStart[lane + 1]; row < stop; row++)
        if (matches[name[row]] && place[row] >= 0) {
          hit[place[row]] = 1;
          hits[count++] = row;
        }
      this.laneStart[lane + 1] = count;
    }
    const upTo = new Uint32Array(hit.length + 1);
    for (let at = 0, sum = 0; at < hit.length; at++) upTo[at + 1] = sum += hit[at];
    this.count = count;
    this.hits = hits.subarray(0, count); // rows, by lane and then by time
    this.upTo = upTo; // hits before each place of the tracks
  }

  // The first hit of a lane that is not before `time` and `row`.
  firstHit(lane, time, row) {
    let low = this.laneStart[lane], high = this.laneStart[lane + 1];
    while (low < high) {
      const middle = (low + high) >> 1, hit = this.hits[middle], begin = this.events.begin[hit];
      if (begin < time || (begin === time && hit < row)) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // The hit after `time` and `row`, or before them if `step` is negative; after the last comes the first.
  next(time, row, step) {
    if (!this.count) return -1;
    const sooner = (a, b) => {
      const difference = this.events.begin[a] - this.events.begin[b];
      return difference < 0 || (difference === 0 && a < b);
    };
    let best = -1, wrapped = -1;
    for (let lane = 0; lane < this.events.lanes.length; lane++) {
      const first = this.laneStart[lane], stop = this.laneStart[lane + 1];
      if (first === stop) continue;
      const at = step > 0 ? this.firstHit(lane, time, row + 1) : this.firstHit(lane, time, row) - 1;
      if (at >= first && at < stop) {
        const hit = this.hits[at];
        if (best < 0 || (step > 0 ? sooner(hit, best) : sooner(best, hit))) best = hit;
      }
      const end = this.hits[step > 0 ? first : stop - 1];
      if (wrapped < 0 || (step > 0 ? sooner(end, wrapped) : sooner(wrapped, end))) wrapped = end;
    }
    return best < 0 ? wrapped : best;
  }

  isHit(row, tracks) {
    const place = tracks.place[row];
    return this.active && place >= 0 && this.upTo[place + 1] > this.upTo[place];
  }

  // The position of a row among the hits in the order of time, from 1.
  rank(row) {
    let before = 0;
    for (let lane = 0; lane < this.events.lanes.length; lane++)
      before += this.firstHit(lane, this.events.begin[row], row) - this.laneStart[lane];
    return before + 1;
  }
}
