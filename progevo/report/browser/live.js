// News of a run that goes on: its own server is asked again and again, and only what changed comes back.

const LIVE_PAUSE = [2000, 30000]; // milliseconds, at first and at most between two questions

function follow(app) {
  let seen = null, pause = LIVE_PAUSE[0];
  const news = byId("news");
  async function ask() {
    try {
      const answer = await fetch("block.json", { headers: seen ? { "If-None-Match": seen } : {}, cache: "no-store" });
      if (answer.status === 200) {
        seen = answer.headers.get("ETag");
        await app.load(await answer.json());
      } else if (answer.status !== 304) throw new Error(`${answer.status}`);
      pause = LIVE_PAUSE[0];
      news.textContent = app.run.block.state === "ended" ? "" : `live, looked at ${new Date().toLocaleTimeString()}`;
    } catch {
      pause = Math.min(LIVE_PAUSE[1], pause * 2);
      news.textContent = "progevo view does not answer: what stands here is what was known last";
    }
    setTimeout(ask, pause);
  }
  setTimeout(ask, pause);
}
