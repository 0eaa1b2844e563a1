# The formula of Homebrew on Linux: the static binary of a release. scripts/package.sh fills in what stands between @.
class Ldplayer < Formula
  desc "DNS experimentation testbed: replays recorded traffic precisely on time"
  homepage "@HOMEPAGE@"
  version "@VERSION@"
  license any_of: ["MIT", "Apache-2.0"]
  depends_on :linux
@BINARIES@

  def install
    bin.install "ldplayer"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/ldplayer.bash" => "ldplayer"
    zsh_completion.install "completions/_ldplayer"
    fish_completion.install "completions/ldplayer.fish"
  end

  test do
    system bin/"ldplayer", "generate", "syn-1", "--queries", "5", "--output", "few.tsv"
    assert_match version.to_s, shell_output("#{bin}/ldplayer --version")
  end
end
