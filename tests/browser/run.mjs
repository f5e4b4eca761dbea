// Open a report in headless Chromium, move every slider, and fail on any console message, error or outside request.
// node tests/browser/run.mjs REPORT.html [SCREENSHOT_FOLDER]      (Chromium through $CHROMIUM, default "chromium")
// Speaks the DevTools protocol over the browser's own pipe: no package is needed, only Node 20 or later.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const report = process.argv[2];
const pictures = process.argv[3];
if (!report) { console.error("usage: node tests/browser/run.mjs REPORT.html [SCREENSHOT_FOLDER]"); process.exit(2); }

const profile = mkdtempSync(join(tmpdir(), "smaller-browser-"));
const browser = spawn(process.env.CHROMIUM ?? "chromium", [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
  `--user-data-dir=${profile}`, "--remote-debugging-pipe", "about:blank",
], { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });

browser.on("error", (error) => { console.error(`browser-test: Chromium does not start: ${error.message}`); process.exit(1); });

const waiting = new Map(), problems = [], listeners = [];
let next = 0, rest = Buffer.alloc(0), session;
browser.stdio[4].on("data", (chunk) => {
  rest = Buffer.concat([rest, chunk]);
  for (let end; (end = rest.indexOf(0)) >= 0; rest = rest.subarray(end + 1)) receive(JSON.parse(rest.subarray(0, end).toString()));
});

function receive(message) {
  if (message.id) {
    const { done, fail } = waiting.get(message.id);
    waiting.delete(message.id);
    return message.error ? fail(new Error(message.error.message)) : done(message.result);
  }
  const { method, params } = message;
  if (method === "Runtime.consoleAPICalled" && params.type !== "debug") problems.push(`console.${params.type}`);
  if (method === "Runtime.exceptionThrown") problems.push(params.exceptionDetails.exception?.description ?? "exception");
  if (method === "Log.entryAdded") problems.push(`${params.entry.level}: ${params.entry.text}`);
  if (method === "Network.requestWillBeSent" && !/^(file|data|about):/.test(params.request.url)) problems.push(`request: ${params.request.url}`);
  for (const listener of listeners.filter((l) => l.method === method)) listener.done(params);
}

function send(method, params = {}) {
  const id = ++next;
  browser.stdio[3].write(JSON.stringify({ id, method, params, sessionId: session }) + "\0");
  return new Promise((done, fail) => waiting.set(id, { done, fail }));
}

const event = (method) => new Promise((done) => listeners.push({ method, done }));

async function evaluate(expression) {
  const { result, exceptionDetails } = await send("Runtime.evaluate", { expression, returnByValue: true });
  if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
  return result.value;
}

async function picture(name, dark) {
  if (!pictures) return;
  await send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }] });
  const { data } = await send("Page.captureScreenshot", { format: "png", captureBeyondViewport: true });
  writeFileSync(join(pictures, `${name}.png`), Buffer.from(data, "base64"));
}

async function print(name) {
  if (!pictures) return;
  const { data } = await send("Page.printToPDF", { preferCSSPageSize: true });
  writeFileSync(join(pictures, `${name}.pdf`), Buffer.from(data, "base64"));
}

function check(condition, text) {
  if (!condition) problems.push(text);
}

async function moveSlider(id) {
  const texts = [], before = await evaluate(`document.getElementById("${id}").value`);
  const last = Number(await evaluate(`document.getElementById("${id}").max`));
  for (const value of [0, Math.floor(last / 2), last, before]) {
    texts.push(await evaluate(`(() => {
      const input = document.getElementById("${id}");
      input.value = ${value};
      input.dispatchEvent(new Event("input", { bubbles: true }));
      return document.getElementById("${id}-value").textContent + " / " + document.getElementById("result").textContent;
    })()`));
  }
  check(new Set(texts).size > 1, `slider ${id} changes nothing: ${texts[0]}`);
  check(texts.every((text) => !/NaN|undefined/.test(text)), `slider ${id} shows: ${texts.join(" | ")}`);
  return texts;
}

async function main() {
  const { targetInfos } = await send("Target.getTargets");
  const { sessionId } = await send("Target.attachToTarget", { targetId: targetInfos.find((t) => t.type === "page").targetId, flatten: true });
  session = sessionId;
  for (const domain of ["Page", "Runtime", "Log", "Network"]) await send(`${domain}.enable`);
  await send("Emulation.setDeviceMetricsOverride", { width: 1000, height: 1400, deviceScaleFactor: 1, mobile: false });
  const loaded = event("Page.loadEventFired");
  await send("Page.navigate", { url: pathToFileURL(resolve(report)).href });
  await loaded;
  check((await evaluate("document.querySelectorAll('h2').length")) >= 5, "sections are missing");
  check((await evaluate("document.querySelectorAll('svg').length")) >= 1, "charts are missing");
  check((await evaluate("document.documentElement.scrollWidth <= window.innerWidth + 1")), "the page is wider than the window");
  for (const id of ["threshold", "prior"]) console.log(id, await moveSlider(id));
  if (await evaluate("!!document.getElementById('which')")) {
    const shown = await evaluate(`(() => { const w = document.getElementById("which"); w.value = "1";
      w.dispatchEvent(new Event("input")); return document.getElementById("prior-value").textContent; })()`);
    check(!/NaN|undefined/.test(shown), `class choice shows ${shown}`);
  }
  await picture("light", false);
  await picture("dark", true);
  await print("print");
  await send("Emulation.setDeviceMetricsOverride", { width: 390, height: 844, deviceScaleFactor: 1, mobile: true });
  check((await evaluate("document.documentElement.scrollWidth <= window.innerWidth + 1")), "the page is wider than a phone");
}

const limit = setTimeout(() => { problems.push("no answer within 60 s"); finish(); }, 60_000);
function finish() {
  clearTimeout(limit);
  browser.once("exit", async () => {
    await removeProfile();
    for (const problem of problems) console.error(`browser-test: ${problem}`);
    console.log(problems.length ? "browser-test: failed" : "browser-test: no console message, no outside request, every slider works");
    process.exit(problems.length ? 1 : 0);
  });
  browser.kill();
}

// The browser's helper processes may write to the profile for a moment after the browser itself has ended.
async function removeProfile() {
  for (let attempt = 0; attempt < 20; attempt++) {
    try { return rmSync(profile, { recursive: true, force: true }); } catch { await new Promise((done) => setTimeout(done, 100)); }
  }
}
main().catch((error) => problems.push(String(error))).finally(finish);
