// Fetches the page again and puts what has changed in its place. Without this script the page works and stands still.
'use strict'
if (document.body.hasAttribute('data-lives')) {
  const button = document.getElementById('pause')
  const status = document.getElementById('updates')
  let paused = false
  button.closest('p').hidden = false
  button.addEventListener('click', () => {
    paused = !paused
    button.setAttribute('aria-pressed', paused)
  })

  // What somebody reads with the keyboard or has marked stays as it is.
  const kept = part => {
    const selection = getSelection()
    return !selection.isCollapsed && part.contains(selection.anchorNode)
  }

  const replace = (part, fresh) => {
    const focus = part.contains(document.activeElement) ? document.activeElement : null
    const scrolls = [...part.querySelectorAll('.scroll')].map(s => s.scrollLeft)
    const regions = [...part.querySelectorAll('.scroll')].indexOf(focus)
    part.replaceChildren(...fresh.childNodes)
    const now = [...part.querySelectorAll('.scroll')]
    now.forEach((s, i) => { s.scrollLeft = scrolls[i] ?? 0 })
    const again = focus && (focus.id ? document.getElementById(focus.id) : now[regions] ??
      [...part.querySelectorAll('a')].find(a => a.href === focus.href))
    again?.focus({ preventScroll: true })
  }

  const update = async () => {
    const answer = await fetch(location.href, { headers: { Accept: 'text/html' } })
    if (!answer.ok) throw new Error(answer.status)
    const fresh = new DOMParser().parseFromString(await answer.text(), 'text/html')
    for (const part of document.querySelectorAll('.part')) {
      const next = fresh.getElementById(part.id)
      if (next && !kept(part) && next.innerHTML !== part.innerHTML) replace(part, next)
    }
    document.querySelector('footer time')?.replaceWith(fresh.querySelector('footer time'))
    if (status.textContent) status.textContent = ''
    return fresh.body.hasAttribute('data-lives')
  }

  const loop = async () => {
    let more = true
    if (!paused && !document.hidden) {
      try {
        more = await update()
      } catch {
        status.textContent = 'The service does not answer.'
      }
    }
    if (more) setTimeout(loop, 1000)
    else button.closest('p').hidden = true
  }
  setTimeout(loop, 1000)
}
