"""PullRaft, variant 2: a follower pulls once it is told who leads."""
