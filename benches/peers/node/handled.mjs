/** Counts handled messages. */
export class Handled {
  #count = 0
  #goal = Infinity
  #reached

  /** Called by every handler as the first thing it does. */
  record() {
    this.#count += 1
    if (this.#count === this.#goal) this.#reached(performance.now())
  }

  /** A promise of the moment when the handler of the message that reaches the goal begins. */
  goal(messages) {
    this.#goal = messages
    return new Promise((resolve) => {
      this.#reached = resolve
    })
  }
}
