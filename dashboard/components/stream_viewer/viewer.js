// Text is set as text throughout: nothing that a model wrote is ever read as markup.

const SHOWN_HISTORY = 40;
const NARROW_PX = 640;

function element(name, kind, text) {
  const found = document.createElement(name);
  if (kind) found.className = kind;
  if (text !== undefined) found.textContent = text;
  return found;
}

function percent(p) {
  if (p === null) return "not known";
  const share = p * 100;
  if (share > 0 && share < 0.01) return "below 0.01 %";
  if (share > 99.99 && share < 100) return "above 99.99 %";
  return share.toFixed(share < 10 ? 2 : 1) + " %";
}

function write(parent, pieces, breaks) {
  for (const [kind, text] of pieces) {
    if (kind === "n") {
      if (breaks) parent.append(document.createElement("br"));
    } else if (kind === "t") {
      parent.append(text);
    } else {
      parent.append(element("span", kind === "b" ? "bytes" : "sign", text));
      if (kind === "s" && breaks) parent.append(document.createElement("wbr"));
    }
  }
}

function heading(words, more) {
  const head = element("p", "head", words);
  if (more) head.append(element("span", "more", " " + more));
  return head;
}

function describe(token, names) {
  const first = token.sides[0][1];
  let words = `${token.label.slice(0, 80) || "empty"}, token ${first.at + 1}`;
  if (token.root) words += ", the root";
  for (const [side, one] of token.sides) {
    const who = token.sides.length > 1 ? ` by ${names[side]}` : "";
    if (one.kind === "written") words += `, ${percent(one.p)}${who}`;
    else if (one.kind === "root") words += `, given${who}`;
    else words += `, answered by the environment`;
  }
  return words;
}

class Viewer {
  constructor(host) {
    this.host = host;
    this.root = host.querySelector(".viewer");
    this.card = host.querySelector(".card");
    this.shown = "";
    this.pinned = null;
    this.root.addEventListener("keydown", (event) => this.key(event));
    this.root.addEventListener("focusout", (event) => {
      if (!this.root.contains(event.relatedTarget)) this.leave();
    });
    this.root.addEventListener("scroll", () => this.place(), true);
    this.observer = new ResizeObserver(() => {
      this.root.classList.toggle("narrow", this.root.clientWidth < NARROW_PX);
      this.place();
    });
    this.observer.observe(this.root);
  }

  draw(data) {
    const text = JSON.stringify(data);
    if (text === this.shown) return;
    this.shown = text;
    this.data = data;
    this.names = data.sides.map((side) => side.name);
    this.pinned = null;
    this.open = null;
    this.streams = [[], [], []];
    this.hide();
    this.legend();
    const box = this.root.querySelector(".streams");
    box.replaceChildren(this.history());
    const both = element("div", "both");
    both.append(this.side(0), this.side(1));
    box.append(both);
    if (data.joins) box.append(this.joined());
    const first = this.streams.flat()[0];
    if (first) first.tabIndex = 0;
  }

  legend() {
    const box = this.root.querySelector(".legend");
    box.replaceChildren(element("span", "word", "Probability of each token:"));
    this.data.steps.forEach((words, at) => box.append(element("span", `swatch step${at} token`, words)));
    box.append(element("span", "swatch token given", "given, not chosen"));
    for (const one of box.querySelectorAll(".token")) one.style.cursor = "default";
    box.append(element("span", "word", "Arrow keys move, Enter pins, Escape closes."));
  }

  history() {
    const { tokens, position, missing } = this.data.history;
    const part = element("section", "part history");
    const head = heading("Shared history", "");
    const stream = element("div", "stream");
    stream.setAttribute("role", "group");
    const fill = (count) => {
      stream.replaceChildren();
      const from = Math.max(tokens.length - count, 0);
      if (position > tokens.length - from) stream.append(element("span", "sign", "… "));
      for (const pieces of tokens.slice(from)) {
        const one = element("span", "past");
        write(one, pieces, true);
        stream.append(one);
      }
      if (!tokens.length) stream.append(element("span", "sign", position ? "(not stored)" : "(nothing before the root)"));
      more.textContent = ` the last ${tokens.length - from} of ${position} tokens before the root`;
      stream.setAttribute("aria-label", "Shared history," + more.textContent);
    };
    const more = head.appendChild(element("span", "more"));
    if (tokens.length > SHOWN_HISTORY) {
      const fold = element("button", "fold", `show ${tokens.length}`);
      fold.type = "button";
      fold.setAttribute("aria-expanded", "false");
      fold.addEventListener("click", () => {
        const open = fold.getAttribute("aria-expanded") === "false";
        fold.setAttribute("aria-expanded", String(open));
        fold.textContent = `show ${open ? SHOWN_HISTORY : tokens.length}`;
        fill(open ? tokens.length : SHOWN_HISTORY);
      });
      head.append(fold);
    }
    fill(SHOWN_HISTORY);
    part.append(head, stream);
    if (missing) part.append(element("p", "note", missing));
    return part;
  }

  side(at) {
    const side = this.data.sides[at];
    const part = element("section", "part side");
    part.dataset.side = String(at);
    const count = side.count === null ? "" : `${side.count} tokens, `;
    const head = heading(side.name, `${side.says}; ${count}${side.ended}`);
    const stream = element("div", "stream");
    stream.setAttribute("role", "group");
    stream.setAttribute("aria-label", `Future of ${side.name}`);
    if (side.text !== null) {
      write(stream, side.text, true);
      part.append(head, stream, element("p", "note", "Its tokens are not stored: the text alone is shown."));
      return part;
    }
    this.tokens(stream, side.tokens, at);
    if (!side.tokens.length) stream.append(element("span", "sign", "(nothing apart: it runs with the other at once)"));
    part.append(head, stream);
    return part;
  }

  joined() {
    const part = element("section", "part joined");
    const count = this.data.joined.length;
    const head = heading("Together again", `re-synchronised: the next ${count} tokens are the same on both sides`);
    const stream = element("div", "stream");
    stream.setAttribute("role", "group");
    stream.setAttribute("aria-label", "Both futures, together again");
    this.tokens(stream, this.data.joined, 2);
    part.append(head, stream);
    this.data.sides.forEach((side, at) => {
      if (!side.rest.length) return;
      stream.append(element("span", "tag", `${side.name} alone`));
      this.tokens(stream, side.rest, 2);
    });
    return part;
  }

  tokens(stream, tokens, at) {
    for (const token of tokens) {
      const step = token.step === null ? "" : ` step${token.step}`;
      const one = element("span", `token${step}${token.given ? " given" : ""}${token.root ? " root" : ""}`);
      one.tabIndex = -1;
      one.setAttribute("role", "button");
      one.setAttribute("aria-pressed", "false");
      one.setAttribute("aria-label", describe(token, this.names));
      one.value = token;
      one.stream = at;
      one.place = this.streams[at].length;
      if (token.root) {
        const mark = element("span", "tag", "root");
        mark.setAttribute("aria-hidden", "true");
        stream.append(mark);
      }
      write(one, token.pieces, true);
      one.addEventListener("mouseenter", () => { if (!this.pinned) this.show(one); });
      one.addEventListener("mouseleave", () => { if (!this.pinned) this.hide(); });
      one.addEventListener("focus", () => { if (!this.pinned) this.show(one); });
      one.addEventListener("click", () => { this.move(one); this.pin(one); });
      this.streams[at].push(one);
      stream.append(one);
    }
  }

  key(event) {
    const one = event.composedPath()[0];
    if (event.key === "Escape" && (this.pinned || this.open)) {
      this.unpin();
      this.hide();
      event.preventDefault();
      event.stopPropagation();
      return;
    }
    if (!one || one.place === undefined) return;
    let next = null;
    if (event.key === "ArrowRight") next = this.after(one);
    else if (event.key === "ArrowLeft") next = this.before(one);
    else if (event.key === "ArrowDown") next = this.below(one);
    else if (event.key === "ArrowUp") next = this.above(one);
    else if (event.key === "Home") next = this.streams[one.stream][0];
    else if (event.key === "End") next = this.streams[one.stream].at(-1);
    else if (event.key === "Enter" || event.key === " ") this.pin(one);
    else return;
    event.preventDefault();
    if (next) this.move(next);
  }

  after(one) {
    const here = this.streams[one.stream];
    if (one.place + 1 < here.length) return here[one.place + 1];
    return one.stream < 2 ? this.streams[2][0] : null;
  }

  before(one) {
    if (one.place > 0) return this.streams[one.stream][one.place - 1];
    return one.stream === 2 ? this.streams[this.last ?? 0].at(-1) : null;
  }

  below(one) {
    if (one.stream === 0) return this.nearest(1, one.place) ?? this.streams[2][0];
    return one.stream === 1 ? this.streams[2][0] : null;
  }

  above(one) {
    if (one.stream === 1) return this.nearest(0, one.place);
    return one.stream === 2 ? this.streams[this.last ?? 0].at(-1) : null;
  }

  nearest(stream, place) {
    const there = this.streams[stream];
    return there[Math.min(place, there.length - 1)];
  }

  move(one) {
    for (const other of this.streams.flat()) other.tabIndex = -1;
    one.tabIndex = 0;
    if (one.stream < 2) this.last = one.stream;
    one.focus();
  }

  pin(one) {
    const again = this.pinned === one;
    this.unpin();
    if (again) return;
    this.pinned = one;
    one.classList.add("pinned");
    one.setAttribute("aria-pressed", "true");
    this.show(one);
    this.card.classList.add("pinned");
  }

  unpin() {
    if (!this.pinned) return;
    this.pinned.classList.remove("pinned");
    this.pinned.setAttribute("aria-pressed", "false");
    this.pinned = null;
    this.card.classList.remove("pinned");
  }

  leave() {
    if (!this.pinned) this.hide();
  }

  hide() {
    this.open = null;
    this.card.hidden = true;
    this.card.replaceChildren();
  }

  show(one) {
    this.open = one;
    const token = one.value;
    const what = element("div", "what");
    write(what, token.pieces, false);
    this.card.replaceChildren(what);
    for (const [side, token_] of token.sides) this.describe(side, token_, token.sides.length > 1);
    this.card.append(element("div", "hint", this.pinned === one ? "pinned: Escape closes" : "Enter pins"));
    this.card.hidden = false;
    this.place();
  }

  describe(side, one, several) {
    const card = this.card;
    const where = `token ${one.at + 1} of ${this.data.sides[side].count}, id ${one.id}`;
    card.append(element("div", "side", several ? `${this.names[side]}: ${where}` : where));
    if (one.kind === "root") return void card.append(element("div", "note", "The root's token: given, not chosen."));
    if (one.kind === "answer") return void card.append(element("div", "note", "Answered by the environment."));
    const nats = one.nats === null ? "" : `, ln ${one.nats.toPrecision(3)}`;
    card.append(element("div", "", `probability ${percent(one.p)}${nats}`));
    if (one.alternatives === null) {
      card.append(element("div", "note", "Alternatives are not stored: an older version wrote this."));
      return;
    }
    for (const other of one.alternatives) {
      const line = element("div", other.id === one.id ? "line chosen" : "line");
      const bar = element("span", "bar");
      bar.style.width = `${Math.min(Math.max(other.p, 0), 1) * 100}%`;
      const name = element("span", "name");
      write(name, other.pieces, false);
      if (other.id === one.id) name.append(" (written)");
      line.append(bar, name, element("span", "value", percent(other.p)));
      card.append(line);
    }
    if (one.alternatives.length && one.alternatives[0].id !== one.id) {
      card.append(element("div", "note", "What stands first was not allowed here: a grammar chose."));
    }
  }

  place() {
    if (!this.open || this.card.hidden) return;
    const box = this.root.getBoundingClientRect();
    const spot = this.open.getClientRects()[0];
    if (!spot) return;
    const left = Math.min(Math.max(spot.left - box.left, 0), Math.max(box.width - this.card.offsetWidth, 0));
    this.card.style.left = `${left}px`;
    this.card.style.top = `${spot.bottom - box.top + 5}px`;
  }
}

const viewers = new WeakMap();

export default function ({ data, parentElement }) {
  let viewer = viewers.get(parentElement);
  if (!viewer || !parentElement.contains(viewer.root)) {
    viewer = new Viewer(parentElement);
    viewers.set(parentElement, viewer);
  }
  viewer.draw(data);
  return () => {
    viewer.observer.disconnect();
    viewers.delete(parentElement);
  };
}
