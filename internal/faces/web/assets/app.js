// Pages work without this script. With it they stay up to date, and forms answer in place.

const main = () => document.getElementById("main");
let tag = "";
let loading = null;
let again = false;
// changes counts what this page has done: an answer to a request that began before is out of date.
let changes = 0;

// morph makes a node like another one, and keeps what a person has changed: focus, open
// details, what was typed, where it was scrolled to.
function morph(from, to) {
  if (from.isEqualNode(to)) return;
  if (from.nodeType !== to.nodeType || from.nodeName !== to.nodeName) return from.replaceWith(to);
  if (from.nodeType !== Node.ELEMENT_NODE) {
    if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
    return;
  }
  if (from.hasAttribute("data-keep") || from.matches(".file:has(.comment-row)")) return;
  attributes(from, to);
  if (!(from instanceof HTMLTextAreaElement)) children(from, to);
}

function attributes(from, to) {
  const own = name => name === "open" || name === "aria-busy" ||
    (name === "value" || name === "checked") && from instanceof HTMLInputElement && from.type !== "hidden";
  for (const {name} of [...from.attributes]) {
    if (!to.hasAttribute(name) && !own(name)) from.removeAttribute(name);
  }
  for (const {name, value} of to.attributes) {
    if (from.getAttribute(name) !== value && !own(name)) from.setAttribute(name, value);
  }
}

const keyOf = node => node.nodeType === Node.ELEMENT_NODE ? node.id || node.getAttribute("data-key") : "";

function children(from, to) {
  const keyed = new Map();
  const wanted = new Set([...to.children].map(keyOf));
  for (const child of [...from.children]) {
    if (!keyOf(child)) continue;
    if (wanted.has(keyOf(child))) keyed.set(keyOf(child), child);
    else child.remove();
  }
  let at = from.firstChild;
  for (const next of [...to.childNodes]) {
    const key = keyOf(next);
    let match = key ? keyed.get(key) : at;
    if (!key) while (match && keyOf(match)) match = match.nextSibling; // it may come later
    if (!key && match && (match.nodeName !== next.nodeName)) match = null;
    if (!match) {
      from.insertBefore(next, at);
      continue;
    }
    while (at !== match && at && !keyOf(at)) { // rather than move what may have the focus
      const gone = at;
      at = at.nextSibling;
      gone.remove();
    }
    if (match !== at) from.insertBefore(match, at);
    else at = at.nextSibling;
    morph(match, next);
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

// show puts another version of the page in the place of this one.
function show(text, url) {
  const page = new DOMParser().parseFromString(text, "text/html");
  const next = page.getElementById("main");
  if (!next) return location.assign(url);
  const said = next.querySelector("[data-said]");
  if (said && !main().querySelector("[data-said]")) {
    said.remove();
    toast(said.firstElementChild);
  }
  const end = following();
  const written = [...document.querySelectorAll("textarea[name=note]")].filter(note => note.value.trim());
  morph(main(), next);
  for (const note of written) {
    if (!note.isConnected && answered !== note.id) inform(`Somebody else has answered meanwhile. You had written: ${note.value.trim()}`);
  }
  drafts();
  for (const id of ["tabs", "who"]) {
    const [from, to] = [document.getElementById(id), page.getElementById(id)];
    if (from && to) morph(from, to);
  }
  document.title = page.title;
  ages();
  if (end) end.scrollIntoView({block: "end"});
}

// inform shows a sentence above the page for a while.
function inform(text) {
  toast(Object.assign(document.createElement("p"), {className: "banner active", textContent: text}));
}

// toast shows a message above the page for a while.
function toast(message) {
  message.removeAttribute("role");
  document.getElementById("toasts").append(message);
  setTimeout(() => message.remove(), 12000);
}

// refresh loads the page again; at most one request runs, and one more follows it.
async function refresh() {
  if (loading || document.hidden) {
    again = true;
    return loading;
  }
  again = false;
  const before = changes;
  loading = (async () => {
    try {
      const answer = await fetch(location.href, {headers: tag ? {"If-None-Match": tag} : {}, cache: "no-store"});
      if (answer.redirected || answer.status === 401) return location.reload();
      if (answer.ok) {
        const text = await answer.text();
        if (before === changes) {
          tag = answer.headers.get("ETag") || "";
          show(text, location.href);
        } else { // the page was read before the person's answer, and would show what is over
          again = true;
        }
      }
      live(answer.ok || answer.status === 304);
    } catch {
      live(false);
    } finally {
      await new Promise(done => setTimeout(done, 400));
      loading = null;
      if (again) refresh();
    }
  })();
  return loading;
}

function live(on) {
  const sign = document.getElementById("live");
  if (!sign) return;
  sign.dataset.state = on ? "on" : "off";
  sign.textContent = on ? "Live" : "No connection. What you see may be old.";
}

function listen() {
  const url = document.body.dataset.events;
  if (!url) return;
  const events = new EventSource(url);
  events.onopen = () => { live(true); refresh(); };
  events.onerror = () => live(false);
  events.addEventListener("change", event => {
    const here = location.pathname.match(/^\/sessions\/([^/]+)/);
    const {session} = JSON.parse(event.data);
    if (!here || !session || decodeURIComponent(here[1]) === session) refresh();
  });
  setInterval(() => { if (events.readyState !== EventSource.OPEN) refresh(); }, 5000);
  addEventListener("pagehide", () => events.close());
}

// keys are those of forms that were sent and not answered: sent again with its key, a form raises or
// starts nothing twice.
const keys = new WeakMap();

function newKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), b => b.toString(16).padStart(2, "0")).join("");
}

// quietUntil is when buttons count again: after an answer another card is where the answered one was.
let quietUntil = 0;
// answered is the id of the note that was sent last.
let answered = "";

// send posts a form and shows what comes of it without leaving the page.
async function send(form, button) {
  const note = form.querySelector("textarea[name=note]");
  for (const open of document.querySelectorAll(".comment-row form")) {
    if (note && open.dataset.comment === note.id && open.elements.text.value.trim()) comment(open);
  }
  const body = new URLSearchParams(new FormData(form, button));
  if (!keys.has(form)) keys.set(form, newKey());
  body.set("once", keys.get(form));
  const place = form.querySelector("[data-answer]") || form;
  form.setAttribute("aria-busy", "true");
  if (button) button.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(form.getAttribute("action"), {method: "POST", body, headers: {"Accept": "text/html"}});
    const text = await answer.text();
    if (answer.status < 500) keys.delete(form);
    if (answer.ok) {
      if (answer.redirected && new URL(answer.url).pathname !== location.pathname) return location.assign(answer.url);
      form.reset();
      quietUntil = Date.now() + 1000;
      if (note) {
        answered = note.id;
        sessionStorage.removeItem(note.id);
      }
      tag = "";
      changes++;
      show(text, answer.url);
      return;
    }
    const problem = new DOMParser().parseFromString(text, "text/html").querySelector("[role=alert]");
    const alert = problem || Object.assign(document.createElement("p"), {textContent: `The server answered ${answer.status}.`});
    alert.setAttribute("role", "alert");
    alert.setAttribute("data-keep", "");
    place.querySelector("[role=alert]")?.remove();
    if (answer.status !== 409) return place.append(alert);
    toast(alert);
    refresh();
  } catch {
    const alert = Object.assign(document.createElement("p"), {textContent: "The server did not answer. This may have been done; sending it again does not do it twice.", className: "field-error"});
    alert.setAttribute("role", "alert");
    place.querySelector("[role=alert]")?.remove();
    place.append(alert);
  } finally {
    form.removeAttribute("aria-busy");
    button?.removeAttribute("aria-busy");
  }
}

// following is the end of a text that grows, if a person follows it.
function following() {
  const box = document.getElementById("follow");
  return box?.checked ? document.getElementById("end") : null;
}

const clock = new Intl.DateTimeFormat(undefined, {month: "short", day: "numeric", hour: "2-digit", minute: "2-digit"});

// ages counts the times that have begun and not ended, and writes others in the person's zone.
function ages() {
  for (const time of document.querySelectorAll("time[data-at]")) {
    const text = clock.format(new Date(time.dateTime));
    if (time.textContent !== text) time.textContent = text;
  }
  for (const time of document.querySelectorAll("time[data-age]")) {
    const seconds = Math.max(0, Math.floor((Date.now() - Date.parse(time.dateTime)) / 1000));
    const text = age(seconds);
    if (time.textContent !== text) time.textContent = text;
  }
}

function age(s) {
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m ${s % 60}s`;
  if (s < 86400) return `${Math.floor(s / 3600)}h ${Math.floor(s / 60) % 60}m`;
  return `${Math.floor(s / 86400)}d ${Math.floor(s / 3600) % 24}h`;
}

function theme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
}

// drafts fills notes with what was written on another page, and not sent.
function drafts() {
  for (const note of document.querySelectorAll("textarea[name=note]")) note.value ||= sessionStorage.getItem(note.id) ?? "";
}

document.addEventListener("input", event => {
  if (event.target.name === "note" && event.target.id) sessionStorage.setItem(event.target.id, event.target.value);
});

document.addEventListener("invalid", event => {
  if (event.target.name !== "note") return;
  event.target.setCustomValidity("Say what is wrong: the next attempt reads it.");
  setTimeout(() => event.target.setCustomValidity(""));
}, true);

// commentOn opens the form for a comment below the line of a difference that was chosen.
function commentOn(cell) {
  const form = cell.closest(".file").querySelector("details [data-comment]");
  const row = cell.closest("tr");
  if (!form || row.nextElementSibling?.matches(".comment-row")) return;
  const place = document.createElement("tr");
  place.className = "comment-row";
  place.append(Object.assign(document.createElement("td"), {colSpan: 3}));
  const copy = form.cloneNode(true);
  for (const named of copy.querySelectorAll("[id], [for]")) {
    if (named.id) named.id += "-" + cell.dataset.n;
    if (named.htmlFor) named.htmlFor += "-" + cell.dataset.n;
  }
  copy.elements.line.value = cell.dataset.n;
  copy.elements.line.parentElement.hidden = true;
  place.firstChild.append(copy);
  row.after(place);
  copy.elements.text.focus();
}

// comment adds a comment on a line to the note with which work is rejected, and leaves it below the line.
function comment(form) {
  const note = document.getElementById(form.dataset.comment);
  const line = form.elements.line.value;
  const place = form.closest(".comment-row");
  const cell = [...form.closest(".file").querySelectorAll(`.ln[data-n="${CSS.escape(line)}"]`)].pop();
  const code = (place?.previousElementSibling ?? cell?.parentElement)?.querySelector(".code");
  const quoted = code?.textContent.replace(/^(added|removed): /, "").trim().slice(0, 80);
  const said = form.elements.text.value.trim();
  const whole = [note.value.trimEnd(), `${form.dataset.path}:${line}${quoted ? ` \`${quoted}\`` : ""}: ${said}`].filter(Boolean).join("\n");
  if (new TextEncoder().encode(whole).length > note.maxLength) return inform("Your note is full: shorten it first.");
  note.value = whole;
  note.rows = Math.min(12, whole.split("\n").length + 1);
  sessionStorage.setItem(note.id, whole);
  if (place) place.firstChild.replaceChildren(Object.assign(document.createElement("p"), {className: "commented", textContent: said}));
  else form.reset();
  inform("Added to the note with which you reject.");
}

document.addEventListener("click", event => {
  const line = event.target.closest(".diff tr")?.querySelector(".ln:last-of-type[data-n], .ln[data-n]");
  if (line && !event.target.closest("a, button") && !String(getSelection())) commentOn([...line.parentElement.querySelectorAll(".ln[data-n]")].pop());
  const at = event.target.closest("[data-theme-switch], [data-copy], [data-open-all]");
  if (!at) return;
  if (at.hasAttribute("data-theme-switch")) theme();
  if (at.hasAttribute("data-copy")) {
    navigator.clipboard?.writeText(at.parentElement.querySelector("code").textContent);
    at.setAttribute("data-copied", "");
    setTimeout(() => at.removeAttribute("data-copied"), 1500);
  }
  if (at.hasAttribute("data-open-all")) {
    const all = [...document.querySelectorAll(at.dataset.openAll)];
    const open = all.some(e => !e.open);
    for (const e of all) e.open = open;
  }
});

document.addEventListener("change", event => {
  const name = event.target.dataset.checkAll;
  if (name) for (const box of document.querySelectorAll(`input[type=checkbox][name="${name}"]`)) box.checked = event.target.checked;
});

document.addEventListener("submit", event => {
  const form = event.target;
  if (form.hasAttribute("data-comment")) {
    event.preventDefault();
    return comment(form);
  }
  if (form.getAttribute("method") !== "post" || form.hasAttribute("data-plain") || form.getAttribute("enctype")) return;
  event.preventDefault();
  if (form.getAttribute("aria-busy") !== "true" && Date.now() > quietUntil) send(form, event.submitter);
});

// The keys of lists: j and k go from card to card, / goes to the search.
document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, [contenteditable]")) return;
  if (event.key === "/") {
    const field = document.querySelector("main input[type=search]");
    if (field) {
      event.preventDefault();
      field.focus();
    }
  }
  if (event.key === "j" || event.key === "k") {
    const stops = [...document.querySelectorAll("[data-stop]")];
    const now = stops.findIndex(e => e.contains(document.activeElement));
    const next = stops[event.key === "j" ? now + 1 : Math.max(now - 1, 0)];
    next?.focus();
  }
});

// A discussion begins with its end, and the graph with the phase that needs a person, or else with one at work.
for (const thread of document.querySelectorAll(".thread")) thread.scrollTop = thread.scrollHeight;
const graph = document.querySelector(".graph");
const wanted = ["ask", "bad", "slow", "active"].map(tone => graph?.querySelector(`.node.${tone}`)).find(Boolean);
if (wanted) graph.scrollLeft = wanted.getBoundingClientRect().left - graph.getBoundingClientRect().left - 24;

document.addEventListener("visibilitychange", () => { if (!document.hidden && again) refresh(); });
setInterval(ages, 1000);
drafts();
ages();
listen();
