// A headless Chromium that a test drives by lines of JSON: each command on standard input has one answer on standard output.
// The browser closes when standard input ends.
//
// Usage: node browser.mjs NODE_MODULES CHROMIUM
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'

const [modules, executablePath] = process.argv.slice(2)
const require = createRequire(modules + '/')
const { default: puppeteer } = require('puppeteer-core')
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8')

const browser = await puppeteer.launch({
  executablePath, headless: 'shell', args: ['--no-sandbox', '--no-zygote', '--disable-gpu', '--disable-dev-shm-usage', '--font-render-hinting=none'],
})
const page = await browser.newPage()
page.setDefaultTimeout(60_000)

// What a page must not do without the test noticing.
const complaints = []
page.on('console', m => { if (['error', 'warn', 'warning'].includes(m.type())) complaints.push(`console: ${m.text()}`) })
page.on('pageerror', e => complaints.push(`error: ${e.message}`))
const requested = new Set()
page.on('request', r => requested.add(new URL(r.url()).origin))

const commands = {
  open: async ({ url }) => (await page.goto(url, { waitUntil: 'load' })).status(),
  // wait answers with the value of an expression, as soon as it is true.
  wait: async ({ expression }) => (await page.waitForFunction(expression, { polling: 50 })).jsonValue(),
  eval: ({ expression }) => page.evaluate(expression),
  press: ({ key }) => page.keyboard.press(key),
  click: ({ selector }) => page.click(selector),
  emulate: async ({ width, height, dark, script }) => {
    await page.setViewport({ width, height })
    await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' }])
    await page.setJavaScriptEnabled(script)
  },
  shot: ({ path }) => page.screenshot({ path, fullPage: true }).then(() => path),
  axe: async () => {
    await page.evaluate(axe)
    const { violations, passes } = await page.evaluate(() => axe.run())
    return {
      passes: passes.length,
      violations: violations.map(v => ({ id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.map(n => n.html + ' ' + n.failureSummary) })),
    }
  },
  complaints: () => complaints,
  requested: () => [...requested],
}

console.log(JSON.stringify({ value: await browser.version() }))
for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line)
  try {
    console.log(JSON.stringify({ value: (await commands[command.do](command)) ?? null }))
  } catch (e) {
    console.log(JSON.stringify({ error: String(e) }))
  }
}
await browser.close()
