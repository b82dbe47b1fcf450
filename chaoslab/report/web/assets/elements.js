"use strict";
/* Elements and numbers. Text of a record is only ever set as text: nothing here reads HTML. */

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element; `attributes` that are null are left out, strings among `children` are text. */
function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for an element of a drawing. */
function shape(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** Text of which what stands in backticks is code. */
function coded(text) {
  const parts = String(text).split("`");
  return parts.length % 2 ? parts.map((part, at) => (at % 2 ? element("code", {}, part) : part)) : [text];
}

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

/** < 0.01 s, 0.31 s, 24.1 s, 412 s; nothing for null. */
function seconds(value) {
  if (value === null || value === undefined) return "";
  if (value >= 0 && value < 0.005) return "< 0.01 s";
  return `${value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)} s`;
}

/** A number with three digits and a prefix: 75855 -> "75.9 k". */
function short(value, unit = "") {
  const size = Math.abs(value);
  const [factor, prefix] = size >= 1e9 ? [1e9, "G"] : size >= 1e6 ? [1e6, "M"] : size >= 1e3 ? [1e3, "k"] : [1, ""];
  const digits = value / factor;
  const text = digits === 0 ? "0" : String(Number(digits.toPrecision(3)));
  return `${text} ${prefix}${unit}`.trim();
}

/** The same of milliseconds: 48.6 ms, 1.5 s. */
function milliseconds(value) {
  return value >= 1000 ? short(value / 1000, "s") : short(value, "ms");
}

/** Bytes per second from kilobytes per second: 80 kB/s, 10.7 MB/s. */
function rate(value) {
  return short(value * 1000, "B/s");
}

function plural(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

/** Any JSON value as text for a reader. */
function plain(value) {
  if (value === null || value === undefined) return "–";
  if (Array.isArray(value)) return value.map(plain).join(", ");
  if (typeof value === "object") {
    return Object.entries(value).map(([key, part]) => `${key}: ${plain(part)}`).join(", ");
  }
  return typeof value === "number" && !Number.isInteger(value) ? String(Number(value.toPrecision(6))) : String(value);
}

/** Terms and what they are, as a list. */
function pairs(entries) {
  return element("dl", { class: "pairs" },
    entries.flatMap(([term, said]) => [element("dt", {}, term), element("dd", {}, said)]));
}

/** Round steps below `highest`, about `number` of them. */
function steps(lowest, highest, number) {
  const span = highest - lowest || 1;
  const rough = span / Math.max(1, number);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough * 0.999);
  const found = [];
  for (let at = Math.ceil(lowest / step - 1e-9); at * step <= highest * (1 + 1e-9); at += 1) found.push(at * step);
  return found.map((one) => Number(one.toPrecision(10)));
}
